// FP8 casts and linears on a GPU against the same on a CPU.
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda_check.h"
#include "model/gates/gates.h"
#include "model/layers/add_norm.h"
#include "model/layers/autocast.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/swiglu.h"
#include "tests/model/event_counts.h"
#include "tests/model/gpu/no_wait.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace fp8_gpu_test {

using testing_model::expect_no_wait;
using testing_model::ragged_batches;
using testing_model::small_config;

constexpr at::ScalarType kFormats[] = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};

class Fp8Gpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

void require_products() {
  const cudaDeviceProp& has = *at::cuda::getCurrentDeviceProperties();
  if (10 * has.major + has.minor < 89) GTEST_SKIP() << "no FP8 products";
}

// The sign of a NaN is the machine's.
at::Tensor bytes(const at::Tensor& x) {
  const at::Tensor codes = x.cpu().view(at::kByte).clone(), nan = x.cpu().to(at::kFloat).isnan();
  return x.element_size() == 1 ? codes.masked_fill_(nan, 0x7F) : codes;
}

// Bit for bit.
void expect_same(const Fp8Matrix& gpu, const Fp8Matrix& cpu) {
  EXPECT_TRUE(
      at::equal(bytes(gpu.inverse_scale.reshape({1})), bytes(cpu.inverse_scale.reshape({1}))));
  EXPECT_TRUE(at::equal(bytes(gpu.by_rows), bytes(cpu.by_rows)));
  EXPECT_TRUE(at::equal(bytes(gpu.by_columns), bytes(cpu.by_columns)));
}

// Sources, formats, sizes with and without padding, of one tile and of many.
TEST_F(Fp8Gpu, CastsAreTheCpus) {
  for (const at::ScalarType source : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const at::ScalarType format : kFormats)
      for (const auto& [rows, columns] : {std::pair(128, 128),
                                          std::pair(64, 64),
                                          std::pair(1, 3),
                                          std::pair(77, 200),
                                          std::pair(1000, 776),
                                          std::pair(300, 1001)}) {
        SCOPED_TRACE(testing::Message()
                     << source << " " << format << " " << rows << " " << columns);
        const at::Tensor x = (at::randn({rows, columns}) * 3).to(source);
        expect_same(to_fp8(x.cuda(), format, Fp8Orders::Both), to_fp8(x, format, Fp8Orders::Both));
      }
}

// Rows that lie apart, aligned and not, and rows that are columns of another matrix.
TEST_F(Fp8Gpu, CastsOfViewsAreTheCpus) {
  const at::Tensor x = (at::randn({300, 416}) * 3).to(at::kBFloat16), device = x.cuda();
  const auto same = [](const at::Tensor& gpu, const at::Tensor& cpu) {
    expect_same(to_fp8(gpu, at::kFloat8_e5m2, Fp8Orders::Both),
                to_fp8(cpu, at::kFloat8_e5m2, Fp8Orders::Both));
  };
  same(device.narrow(1, 0, 408), x.narrow(1, 0, 408));
  same(device.narrow(1, 8, 387), x.narrow(1, 8, 387));
  same(device.narrow(1, 3, 128), x.narrow(1, 3, 128));
  same(device.narrow(0, 7, 1).narrow(1, 0, 64), x.narrow(0, 7, 1).narrow(1, 0, 64));
  same(device.t(), x.t());
  same(device.narrow(0, 0, 1).expand({32, 416}), x.narrow(0, 0, 1).expand({32, 416}));
}

TEST_F(Fp8Gpu, CastsOfZerosAndOfWhatIsNotFiniteAreTheCpus) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const at::ScalarType format : kFormats)
    for (const float value : {0.F, 1e-30F, inf, -inf, std::nanf("")}) {
      at::Tensor x = value == 0.F || value == 1e-30F ? at::zeros({32, 48}) : at::randn({32, 48});
      x[31][47] = value;
      const Fp8Matrix gpu = to_fp8(x.cuda(), format, Fp8Orders::Both);
      if (!std::isnan(value)) expect_same(gpu, to_fp8(x, format, Fp8Orders::Both));
      const at::Tensor seen = gpu.by_rows.to(at::kFloat) * gpu.inverse_scale;
      EXPECT_EQ(at::isfinite(seen).all().item<bool>(), std::isfinite(value)) << value;
    }
}

TEST_F(Fp8Gpu, OneOrderAloneIsTheSame) {
  const at::Tensor x = at::randn({200, 336}).to(at::kBFloat16).cuda();
  const Fp8Matrix both = to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Both),
                  rows = to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Rows),
                  columns = to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Columns);
  EXPECT_FALSE(rows.by_columns.defined() || columns.by_rows.defined());
  EXPECT_TRUE(at::equal(bytes(rows.by_rows), bytes(both.by_rows)));
  EXPECT_TRUE(at::equal(bytes(columns.by_columns), bytes(both.by_columns)));
}

// More casts than one fill of slots serves, with the scale of each still in place at the end.
TEST_F(Fp8Gpu, EveryCastHasItsOwnScale) {
  Fp8Casts casts;
  std::vector<Fp8Matrix> all;
  for (int i = 1; i <= 600; ++i) {
    const at::Tensor x = at::full({16, 16}, i, at::TensorOptions().device(at::kCUDA));
    all.push_back(to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Rows, {casts.slot(x.device())}));
  }
  for (int i = 1; i <= 600; ++i)
    ASSERT_EQ(all[static_cast<std::size_t>(i - 1)].inverse_scale.item<float>(),
              static_cast<float>(i) / 448.F);
}

TEST_F(Fp8Gpu, LinearsAreTheCpus) {
  require_products();
  if (IsSkipped()) return;
  for (const auto& [tokens, in, out] : {std::array{77, 64, 40}, std::array{512, 768, 3096}}) {
    const at::Tensor x = at::randn({tokens, in}), w = at::randn({out, in}),
                     dy = at::randn({tokens, out});
    const auto run = [&](at::Device device) {
      const at::Tensor a = x.detach().to(device).detach().requires_grad_(),
                       b = w.detach().to(device).detach().requires_grad_();
      Fp8Casts casts;
      const Fp8Guard guard(&casts);
      const at::Tensor y = apply_linear(a, b);
      y.backward(dy.to(device).to(y.scalar_type()));
      return std::vector<at::Tensor>{y.detach().cpu(), a.grad().cpu(), b.grad().cpu()};
    };
    const auto cpu = run(at::kCPU), gpu = run(at::kCUDA);
    for (std::size_t i = 0; i < cpu.size(); ++i)
      EXPECT_LE(relative_rms(gpu[i], cpu[i]), 5e-3) << i << " of " << out;
  }
}

// Kernels that hand on the largest value of what they write change no bit of the linear behind
// them: other tensors of the same values, of which nothing is known, give the same.
TEST_F(Fp8Gpu, KernelsHandOnTheLargestValue) {
  require_products();
  if (IsSkipped()) return;
  const auto tensor = [](std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}, at::TensorOptions().device(at::kCUDA)).to(at::kBFloat16);
  };
  const at::Tensor x = tensor(300, 512), branch = tensor(300, 512),
                   w = tensor(96, 512).to(at::kFloat), w_in = tensor(512, 512).to(at::kFloat),
                   dy = tensor(300, 96),
                   scale = at::rand({512}, at::TensorOptions().device(at::kCUDA));
  for (const bool layer : {false, true})
    for (const at::ScalarType stream : {at::kFloat, at::kBFloat16}) {
      const at::Tensor bias = layer ? scale + 1 : at::Tensor();
      const auto run = [&](bool known, EventCounts& counts) {
        const SpanSinkGuard counting(counts);
        const auto hand = [&](const at::Tensor& a) { return known ? a : a * 1; };
        const at::Tensor leaf = x.to(stream).detach().requires_grad_(),
                         added = branch.clone().requires_grad_(), a = w.clone().requires_grad_(),
                         b = w_in.clone().requires_grad_();
        Fp8Casts casts;
        const Fp8Guard guard(&casts);
        const AutocastGuard autocast(at::kCUDA, at::kBFloat16);
        const at::Tensor from = apply_linear(added, b); // its gradient comes from the norm
        const auto [sum, y] = add_norm(leaf, hand(from), scale, bias);
        const at::Tensor wide = apply_linear(hand(y), b);
        const at::Tensor gated = fused_swiglu(hand(at::cat({wide, wide}, 1)));
        apply_linear(hand(gated), a).backward(dy);
        return std::vector<at::Tensor>{leaf.grad(), added.grad(), a.grad(), b.grad()};
      };
      EventCounts known, unknown;
      const auto with = run(true, known), without = run(false, unknown);
      for (std::size_t i = 0; i < with.size(); ++i)
        EXPECT_TRUE(at::equal(with[i], without[i])) << i;
      // y, gated, and the norm's gradient; SwiGLU's is added up by cat().
      EXPECT_EQ(known.seen["fp8/largest_known"], 3);
      EXPECT_EQ(unknown.seen["fp8/largest_known"], 0);
    }
}

// All linears' weights at once, and again after a change of one.
TEST_F(Fp8Gpu, WeightsCastTogetherAreThoseCastAlone) {
  const auto weight = [](std::int64_t out, std::int64_t in) {
    return at::randn({out, in}, at::TensorOptions().device(at::kCUDA));
  };
  const std::vector<at::Tensor> weights{weight(3096, 768), weight(40, 64), weight(768, 2048)};
  Fp8Weights kept;
  for (const at::Tensor& w : weights) kept.add(w);
  for (int step = 0; step < 2; ++step) {
    kept.cast();
    for (const at::Tensor& w : weights) {
      ASSERT_NE(kept.find(w), nullptr);
      expect_same(*kept.find(w), to_fp8(w.cpu(), at::kFloat8_e4m3fn, Fp8Orders::Both));
    }
    weights[1].mul_(-.1);
  }
}

// Kernels that write FP8 alone change no bit of a step with delayed scales: a model whose norms and
// gates are operators' results cast behind them would differ by rounding, so single layers are
// compared, with tensors between that no kernel can write in FP8.
TEST_F(Fp8Gpu, KernelsThatWriteFp8ChangeNoBit) {
  require_products();
  if (IsSkipped()) return;
  const auto tensor = [](std::int64_t rows, std::int64_t columns) {
    return at::randn({rows, columns}, at::TensorOptions().device(at::kCUDA)).to(at::kBFloat16);
  };
  const at::Tensor x = tensor(300, 512), branch = tensor(300, 512), dy = tensor(300, 96),
                   w_in = tensor(512, 512).to(at::kFloat), w_out = tensor(96, 256).to(at::kFloat),
                   w_gate = tensor(512, 512).to(at::kFloat),
                   scale = at::rand({512}, at::TensorOptions().device(at::kCUDA)),
                   head = at::rand({64}, at::TensorOptions().device(at::kCUDA));
  const auto run = [&](bool written, EventCounts& counts) {
    const SpanSinkGuard counting(counts);
    const at::Tensor a = w_in.clone().requires_grad_(), b = w_out.clone().requires_grad_(),
                     c = w_gate.clone().requires_grad_(), none;
    Fp8Histories histories(std::vector<at::Tensor>{a, b, c});
    std::vector<at::Tensor> result;
    for (int step = 0; step < 3; ++step) {
      for (const at::Tensor& w : {a, b, c}) w.mutable_grad().reset();
      const at::Tensor leaf = x.clone().requires_grad_(), added = branch.clone().requires_grad_();
      Fp8Casts casts(&histories);
      const Fp8Guard guard(&casts);
      const AutocastGuard autocast(at::kCUDA, at::kBFloat16);
      const auto [sum, y] = add_norm(leaf, added, scale, none, written ? c : none);
      const at::Tensor heads = apply_linear(y, c).view({300, 8, 64});
      const at::Tensor gated =
          gated_norm(heads, heads * 1, head, written ? a : none).reshape({300, 512});
      const at::Tensor in = apply_linear(gated, a);
      apply_linear(fused_swiglu(in, written ? a : none, written ? b : none), b).backward(dy);
      histories.roll();
      result = {leaf.grad(), added.grad(), a.grad(), b.grad(), c.grad()};
    }
    for (const auto& [name, state] : histories.state()) result.push_back(state);
    return result;
  };
  EventCounts with_counts, without_counts;
  const auto with = run(true, with_counts), without = run(false, without_counts);
  for (std::size_t i = 0; i < with.size(); ++i) EXPECT_TRUE(at::equal(with[i], without[i])) << i;
  EXPECT_EQ(with_counts.seen["fp8/input_written"], 2 * 3);
  EXPECT_EQ(with_counts.seen["fp8/gradient_written"], 2);
  EXPECT_EQ(without_counts.seen["fp8/input_written"], 0);
}

TEST_F(Fp8Gpu, LogitsAndGradientsAreNearTheCpus) {
  require_products();
  if (IsSkipped()) return;
  TrainConfig cpu = small_config();
  cpu.precision = Precision::Fp8;
  TrainConfig gpu = cpu;
  gpu.device = Device::Cuda;
  TrainConfig exact = cpu;
  exact.precision = Precision::Fp32;
  Trainer a(cpu), b(gpu), truth(exact);
  const Batch on_cpu = ragged_batches(cpu, 1).front(), on_gpu = ragged_batches(gpu, 1).front();
  // bf16 results that differ by a rounding move into another code of the next cast, so the two are
  // off from fp32 nearly independently: by the root of two of what either is off.
  const auto expect_near = [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& z) {
    EXPECT_LE(relative_rms(x.cpu(), y), 2 * relative_rms(y, z));
  };
  expect_near(b.logits(on_gpu), a.logits(on_cpu), truth.logits(on_cpu));
  const auto flat = [](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& x : tensors) parts.push_back(x.reshape(-1).cpu());
    return at::cat(parts);
  };
  expect_near(flat(b.gradients(on_gpu)), flat(a.gradients(on_cpu)), flat(truth.gradients(on_cpu)));
}

// The host returns while the device still works on a planted wait: no scale is read back.
TEST_F(Fp8Gpu, AStepDoesNotWaitForTheDevice) {
  require_products();
  if (IsSkipped()) return;
  TrainConfig config = small_config();
  config.pattern = "M"; // few launches: the queue of the device is finite
  config.device = Device::Cuda;
  config.precision = Precision::Fp8;
  config = value_or_throw(resolve(config));
  expect_no_wait(config, ragged_batches(config, 1));
}

} // namespace fp8_gpu_test
} // namespace assay
