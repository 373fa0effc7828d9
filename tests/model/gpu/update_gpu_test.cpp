// The update in one pass on a GPU: against its loop in fp64 on the CPU, the same bits from run to
// run, inside a CUDA graph, without waiting; and kept 16-bit copies of weights.
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <chrono>
#include <limits>

#include "kernels/cuda_check.h"
#include "kernels/spin.h"
#include "model/gates/gates.h"
#include "model/layers/linear/kept_weights.h"
#include "model/training/update/one_pass.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace update_gpu_test {

using testing_model::ragged_batches;
using testing_model::small_config;
using Parameters = std::vector<PassParameter>;

const std::vector<std::int64_t> kSizes{1, 61, 768, 16384, 16384 * 3 + 4097, 2'000'003};

class UpdateGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

at::Tensor drawn(std::int64_t size, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty({size}, at::kFloat).normal_(0, 1, generator);
}

// Every second one without average, every third with a copy.
Parameters parameters(const std::vector<std::int64_t>& sizes, at::ScalarType half) {
  Parameters all;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PassParameter p;
    p.weight = drawn(sizes[i], i).to(at::kCUDA);
    p.first = at::zeros_like(p.weight), p.second = at::zeros_like(p.weight);
    if (i % 2 == 0) p.average = p.weight.clone();
    if (i % 3 > 0) p.copy = p.weight.to(half);
    p.decay = i % 2 == 0 ? .1 : 0;
    all.push_back(p);
  }
  return all;
}

// Where autograd may put them: the last one at an address that allows no words.
void draw_gradients(Parameters& all, std::uint64_t seed, double scale) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    const at::Tensor g = drawn(all[i].weight.numel(), 100 * seed + i).mul_(scale);
    const bool shifted = i + 1 == all.size();
    const at::Tensor room = at::empty({g.numel() + 1}, all[i].weight.options());
    all[i].gradient = room.narrow(0, shifted ? 1 : 0, g.numel());
    all[i].gradient.copy_(g);
  }
}

PassScalars scalars(at::Device device, double scale) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  PassScalars s{{}, {}, {}, {}, .9, .95, 1e-8, 1.0, .99};
  s.learning_rate = at::full({}, 2e-3, options), s.steps = at::zeros({}, options);
  if (scale > 0) s.scale = at::full({1}, scale, options), s.found_inf = at::zeros({1}, options);
  return s;
}

Parameters in_double(const Parameters& all) {
  Parameters copies;
  const auto wide = [](const at::Tensor& x) {
    return x.defined() ? x.to(at::kCPU, at::kDouble) : at::Tensor();
  };
  for (const PassParameter& p : all)
    copies.push_back(
        {wide(p.weight), {}, wide(p.first), wide(p.second), wide(p.average), {}, p.decay});
  return copies;
}

Parameters cloned(const Parameters& all) {
  Parameters copies = all;
  for (PassParameter& p : copies)
    for (at::Tensor* x : {&p.weight, &p.gradient, &p.first, &p.second, &p.average, &p.copy})
      if (x->defined()) *x = x->clone();
  return copies;
}

void expect_near(const Parameters& seen, const Parameters& exact) {
  const auto off = [](const at::Tensor& a, const at::Tensor& b) {
    return relative_rms(a.to(at::kCPU, at::kDouble), b);
  };
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_LE(off(seen[i].weight, exact[i].weight), 1e-6) << i;
    EXPECT_LE(off(seen[i].first, exact[i].first), 1e-6) << i;
    EXPECT_LE(off(seen[i].second, exact[i].second), 1e-6) << i;
    if (seen[i].average.defined()) {
      EXPECT_LE(off(seen[i].average, exact[i].average), 1e-6) << i;
    }
    if (seen[i].copy.defined()) {
      EXPECT_TRUE(at::equal(seen[i].copy, seen[i].weight.to(seen[i].copy.scalar_type()))) << i;
    }
  }
}

void expect_same_bits(const Parameters& a, const Parameters& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(at::equal(a[i].weight, b[i].weight)) << i;
    EXPECT_TRUE(at::equal(a[i].first, b[i].first)) << i;
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << i;
    if (a[i].average.defined()) {
      EXPECT_TRUE(at::equal(a[i].average, b[i].average)) << i;
    }
    if (a[i].copy.defined()) {
      EXPECT_TRUE(at::equal(a[i].copy, b[i].copy)) << i;
    }
  }
}

void expect_exact(const std::vector<std::int64_t>& sizes, at::ScalarType half, double scale) {
  Parameters seen = parameters(sizes, half), exact = in_double(seen);
  const PassScalars s = scalars(at::kCUDA, scale), on_cpu = scalars(at::kCPU, scale);
  OnePass device, loop;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    draw_gradients(seen, step, (step == 2 ? 1e-5 : 1) * (scale > 0 ? scale : 1));
    for (std::size_t i = 0; i < seen.size(); ++i)
      exact[i].gradient = seen[i].gradient.to(at::kCPU, at::kDouble);
    const double norm = device.run(seen, s).item<double>(),
                 expected = loop.run(exact, on_cpu).item<double>();
    EXPECT_NEAR(norm / expected, 1, 1e-6);
    EXPECT_EQ(s.steps.item<double>(), static_cast<double>(step));
    expect_near(seen, exact);
  }
}

TEST_F(UpdateGpu, EqualsTheLoopInDouble) {
  for (const at::ScalarType half : {at::kBFloat16, at::kHalf})
    for (const double scale : {0., 65536.}) expect_exact(kSizes, half, scale);
}

// More parameters than a launch has room for.
TEST_F(UpdateGpu, ManyParametersTakeSeveralLaunches) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 1000; ++i) sizes.push_back(1 + i * 37 % 20000);
  expect_exact(sizes, at::kBFloat16, 0);
}

TEST_F(UpdateGpu, AnOverflowMovesAveragesAlone) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    Parameters all = parameters(kSizes, at::kBFloat16);
    const PassScalars s = scalars(at::kCUDA, 8);
    OnePass pass;
    draw_gradients(all, 1, 8);
    (void)pass.run(all, s);
    draw_gradients(all, 2, 8);
    all[5].gradient[2'000'002] = bad;
    for (PassParameter& p : all)
      if (p.average.defined()) p.average.zero_();
    Parameters before = cloned(all);
    (void)pass.run(all, s);
    EXPECT_EQ(s.found_inf.item<double>(), 1);
    EXPECT_EQ(s.steps.item<double>(), 1);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!all[i].average.defined()) continue;
      EXPECT_TRUE(at::allclose(all[i].average, before[i].weight * .01)) << i;
      before[i].average = all[i].average;
    }
    expect_same_bits(all, before);
  }
}

TEST_F(UpdateGpu, RepeatsItselfBitForBit) {
  Parameters a = parameters(kSizes, at::kBFloat16);
  draw_gradients(a, 1, 1);
  Parameters b = cloned(a);
  OnePass first, second;
  const double x = first.run(a, scalars(at::kCUDA, 0)).item<double>(),
               y = second.run(b, scalars(at::kCUDA, 0)).item<double>();
  EXPECT_EQ(x, y);
  expect_same_bits(a, b);
}

TEST_F(UpdateGpu, TheTableFollowsWeightsThatMove) {
  Parameters a = parameters(kSizes, at::kBFloat16);
  draw_gradients(a, 1, 1);
  Parameters b = cloned(a);
  OnePass pass, other;
  const PassScalars s = scalars(at::kCUDA, 0), t = scalars(at::kCUDA, 0);
  (void)pass.run(a, s), (void)other.run(b, t);
  const Parameters old = a;
  for (PassParameter& p : a) p.weight = p.weight.clone(); // as after set_data()
  (void)pass.run(a, s), (void)other.run(b, t);
  expect_same_bits(a, b);
  EXPECT_FALSE(at::equal(old[4].weight, a[4].weight));
}

// Learning rate, gradients and an overflow change between replays.
TEST_F(UpdateGpu, AGraphReplaysWhatRunsWithoutIt) {
  Parameters a = parameters(kSizes, at::kBFloat16);
  draw_gradients(a, 1, 8);
  Parameters b = cloned(a);
  const PassScalars s = scalars(at::kCUDA, 8), t = scalars(at::kCUDA, 8);
  OnePass captured, eager;
  at::cuda::CUDAGraph graph;
  at::Tensor norm;
  {
    const c10::cuda::CUDAStreamGuard stream(c10::cuda::getStreamFromPool());
    (void)captured.run(a, s);
    c10::cuda::device_synchronize();
    graph.capture_begin();
    norm = captured.run(a, s);
    graph.capture_end();
  }
  c10::cuda::device_synchronize();
  (void)eager.run(b, t);
  for (int step = 0; step < 4; ++step) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i].gradient.copy_(drawn(a[i].gradient.numel(), static_cast<std::uint64_t>(step) + 50 + i));
      if (step == 2 && i == 3) a[i].gradient[7] = std::numeric_limits<double>::infinity();
      b[i].gradient.copy_(a[i].gradient);
    }
    s.learning_rate.fill_(1e-3 * step), t.learning_rate.fill_(1e-3 * step);
    graph.replay();
    const at::Tensor expected = eager.run(b, t);
    EXPECT_TRUE(at::equal(norm, expected));
    EXPECT_EQ(s.found_inf.item<double>(), step == 2 ? 1 : 0);
    EXPECT_TRUE(at::equal(s.steps, t.steps));
    expect_same_bits(a, b);
  }
}

TEST_F(UpdateGpu, NothingWaitsForTheDevice) {
  Parameters all = parameters(kSizes, at::kBFloat16);
  const PassScalars s = scalars(at::kCUDA, 8);
  OnePass pass;
  draw_gradients(all, 1, 8);
  (void)pass.run(all, s);
  c10::cuda::device_synchronize();
  launch_spin(1'000'000'000, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  const auto start = std::chrono::steady_clock::now();
  (void)pass.run(all, s);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 0.5);
  c10::cuda::device_synchronize();
}

// 166 M parameters, most of them with a copy: prints the time, and fails at half of the bandwidth
// of a copy.
TEST_F(UpdateGpu, MovesItsBytesAtTheSpeedOfACopy) {
  std::vector<std::int64_t> sizes(24, 768);
  for (int i = 0; i < 40; ++i) sizes.push_back(4'150'000);
  Parameters all = parameters(sizes, at::kBFloat16);
  double bytes = 0;
  for (PassParameter& p : all) {
    p.gradient = at::randn_like(p.weight), p.average = p.weight.clone();
    bytes += static_cast<double>(p.weight.numel()) * (p.copy.defined() ? 42 : 40);
  }
  const PassScalars s = scalars(at::kCUDA, 0);
  const at::Tensor from =
                       at::empty({std::int64_t{1} << 30}, at::device(at::kCUDA).dtype(at::kByte)),
                   to = at::empty_like(from);
  OnePass pass;
  const auto seconds = [](auto run) {
    run();
    at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
    begin.record();
    for (int i = 0; i < 20; ++i) run();
    end.record();
    end.synchronize();
    return static_cast<double>(begin.elapsed_time(end)) / 20e3;
  };
  const double update = seconds([&] { (void)pass.run(all, s); }),
               copy = seconds([&] { to.copy_(from); });
  const double peak = 2 * static_cast<double>(from.nbytes()) / copy;
  std::printf("    %.3f ms, %.2f TB/s; a copy: %.2f TB/s\n",
              update * 1e3,
              bytes / update / 1e12,
              peak / 1e12);
  EXPECT_GT(bytes / update, peak / 2);
}

// --- Kept copies ---------------------------------------------------------------------------------

TEST_F(UpdateGpu, AKeptLinearGivesTheWeightsGradientInFp32) {
  for (const at::ScalarType half : {at::kBFloat16, at::kHalf}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
    at::manual_seed(3);
    const at::Tensor x = at::randn({1000, 768}, options).requires_grad_(),
                     w = at::randn({512, 768}, options).mul_(.02).requires_grad_(),
                     dy = at::randn({1000, 512}, options).to(half);
    const at::Tensor y = kept_linear(x, w, w.detach().to(half));
    y.backward(dy);
    const auto wide = [&](const at::Tensor& t) { return t.detach().to(half).to(at::kDouble); };
    EXPECT_EQ(w.grad().scalar_type(), at::kFloat);
    EXPECT_LE(relative_rms(w.grad(), at::mm(wide(dy).t(), wide(x))), 1e-5);
    EXPECT_LE(relative_rms(x.grad(), at::mm(wide(dy), wide(w))), 4e-3);
    EXPECT_LE(relative_rms(y, at::mm(wide(x), wide(w).t())), 4e-3);
  }
}

TEST_F(UpdateGpu, CopiesAreTheWeightsInUse) {
  for (const UpdatePass pass : {UpdatePass::PerParameter, UpdatePass::Foreach, UpdatePass::OnePass})
    for (const EmaSwap swap : {EmaSwap::CloneCopy, EmaSwap::PointerSwap, EmaSwap::Exchange})
      for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
        TrainConfig config = small_config();
        config.device = Device::Cuda, config.precision = precision;
        config.update_pass = pass, config.ema_swap = swap;
        if (precision == Precision::Fp16) config.grad_scaler = GradScaler::Dynamic;
        TrainConfig kept = config;
        kept.weights16 = Weights16::Kept;
        for (const GateResult& gate : copies_gates(config, kept, ragged_batches(config, 2)))
          EXPECT_TRUE(gate.passed) << gate.name << ": " << gate.value << " (" << gate.detail << ")";
      }
}

} // namespace update_gpu_test
} // namespace assay
