// The row kernels on a GPU in bf16 against the same functions in fp64 on the CPU: results and
// gradients; the same bits from run to run.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstdio>
#include <functional>

#include "model/gates/gates.h"
#include "model/layers/add_norm.h"
#include "model/layers/autocast.h"
#include "model/layers/gelu.h"
#include "model/layers/linear/column_sum.h"
#include "model/layers/swiglu.h"

namespace assay {
namespace rowwise_gpu_test {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// An input as the trainer has it: weights and the residual stream fp32, what products give bf16.
struct Input {
  std::vector<std::int64_t> shape;
  at::ScalarType type;
};

Tensors drawn(const std::vector<Input>& inputs) {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  Tensors all;
  for (const Input& in : inputs)
    all.push_back(at::empty(in.shape, at::kDouble).normal_(0.3, 1, generator).to(in.type));
  return all;
}

// The same in multiples of 1/16 up to 4: sums of two of them are exact in bf16.
Tensors drawn_in_steps(const std::vector<Input>& inputs) {
  Tensors all;
  for (const at::Tensor& x : drawn(inputs))
    all.push_back(x.to(at::kDouble).mul(16).round().clamp(-64, 64).div(16).to(x.scalar_type()));
  return all;
}

Tensors on(const Tensors& inputs, at::Device device, bool in_double) {
  Tensors leaves;
  for (const at::Tensor& x : inputs)
    leaves.push_back(x.to(device, in_double ? at::kDouble : x.scalar_type()).requires_grad_());
  return leaves;
}

// Results of `f`, then the gradients of all leaves for results weighted by fixed values in bf16.
Tensors results(const Function& f, const Tensors& leaves) {
  const bool device = leaves[0].is_cuda();
  const AutocastGuard cast(leaves[0].device().type(), device ? at::kBFloat16 : at::kFloat);
  const Tensors out = f(leaves);
  Tensors weights;
  for (const at::Tensor& x : out)
    weights.push_back((at::linspace(-1, 2, x.numel(), at::kDouble).cos())
                          .to(at::kBFloat16)
                          .view(x.sizes())
                          .to(x.device(), x.scalar_type()));
  Tensors all;
  for (const at::Tensor& x : out) all.push_back(x.detach());
  torch::autograd::variable_list roots(out.begin(), out.end()),
      seeds(weights.begin(), weights.end());
  torch::autograd::backward(roots, seeds);
  for (const at::Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

void expect_kernel_is_exact(const Function& f, const Tensors& in) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Tensors expected = results(f, on(in, at::kCPU, true));
  const Tensors actual = results(f, on(in, at::kCUDA, false));
  const Tensors again = results(f, on(in, at::kCUDA, false));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double limit = actual[i].scalar_type() == at::kFloat ? 1e-4 : 4e-3;
    EXPECT_LE(relative_rms(actual[i].to(at::kCPU, at::kDouble), expected[i]), limit) << i;
    EXPECT_TRUE(at::equal(actual[i], again[i])) << i;
  }
}

void expect_kernel_is_exact(const Function& f, const std::vector<Input>& inputs) {
  expect_kernel_is_exact(f, drawn(inputs));
}

constexpr at::ScalarType kWide = at::kFloat, kHalf = at::kBFloat16;

TEST(RowwiseGpu, AddNorm) {
  const Function f = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], x[1], x[2]);
    return Tensors{sum, y};
  };
  for (const std::int64_t width : {64, 200, 768, 1024})
    expect_kernel_is_exact(f, {{{1031, width}, kWide}, {{1031, width}, kHalf}, {{width}, kWide}});
}

TEST(RowwiseGpu, AddLayerNorm) {
  const Function f = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], x[1], x[2], x[3]);
    return Tensors{sum, y};
  };
  const Function first = [](const Tensors& x) {
    return Tensors{add_norm(x[0], at::Tensor(), x[1], x[2]).second};
  };
  for (const at::ScalarType stream : {kWide, kHalf})
    for (const std::int64_t width : {64, 200, 768, 1024}) {
      const Input rows{{1031, width}, stream}, branch{{1031, width}, kHalf}, weight{{width}, kWide};
      expect_kernel_is_exact(f, drawn_in_steps({rows, branch, weight, weight}));
      expect_kernel_is_exact(first, drawn_in_steps({rows, weight, weight}));
    }
}

TEST(RowwiseGpu, AddNormOfA16BitStream) {
  const Function f = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], x[1], x[2]);
    return Tensors{sum, y};
  };
  for (const std::int64_t width : {64, 200, 768, 1024})
    expect_kernel_is_exact(
        f, drawn_in_steps({{{1031, width}, kHalf}, {{1031, width}, kHalf}, {{width}, kWide}}));
  const Function first = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], at::Tensor(), x[1]);
    return Tensors{y};
  };
  expect_kernel_is_exact(first, drawn_in_steps({{{517, 768}, kHalf}, {{768}, kWide}}));
}

TEST(RowwiseGpu, A16BitStreamIsNormedAsItIsStored) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Tensors x =
      on(drawn({{{517, 768}, kHalf}, {{517, 768}, kHalf}, {{768}, kWide}}), at::kCUDA, false);
  const AutocastGuard cast(at::kCUDA, at::kBFloat16);
  const auto [sum, y] = add_norm(x[0], x[1], x[2]);
  EXPECT_TRUE(at::equal(sum, (x[0].to(kWide) + x[1].to(kWide)).to(kHalf)));
  EXPECT_TRUE(at::equal(y, add_norm(sum, at::Tensor(), x[2]).second));
}

double seconds(const std::function<void()>& run) {
  for (int i = 0; i < 3; ++i) run();
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record();
  for (int i = 0; i < 20; ++i) run();
  end.record();
  end.synchronize();
  return static_cast<double>(begin.elapsed_time(end)) / 20e3;
}

// 131,072 rows of 768, both ways: prints the times, and fails below half of the bandwidth of a
// copy. Per element of an fp32 stream 12 bytes forward and 16 backward, of a bf16 stream 8 and 8.
TEST(RowwiseGpu, AddNormMovesItsBytesAtTheSpeedOfACopy) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(kHalf);
  const at::Tensor from = at::empty({std::int64_t{1} << 29}, options), to = at::empty_like(from);
  const double peak = 2 * static_cast<double>(from.nbytes()) / seconds([&] { to.copy_(from); });
  const AutocastGuard cast(at::kCUDA, at::kBFloat16);
  for (const at::ScalarType type : {kWide, kHalf}) {
    const std::vector<std::int64_t> shape{131072, 768};
    const at::Tensor x = at::randn(shape, options).to(type).requires_grad_(),
                     branch = at::randn(shape, options).requires_grad_(),
                     weight = at::randn({768}, options.dtype(kWide)).requires_grad_(),
                     next = at::randn(shape, options).to(type), dy = at::randn(shape, options);
    const double time = seconds([&] {
      const auto [sum, y] = add_norm(x, branch, weight);
      (void)torch::autograd::grad({sum, y}, {x, branch, weight}, {next, dy});
    });
    const double bytes = static_cast<double>(x.numel()) * (type == kWide ? 12 + 16 : 8 + 8);
    std::printf("    %s stream: %.3f ms, %.2f TB/s; a copy: %.2f TB/s\n",
                type == kWide ? "fp32" : "bf16",
                time * 1e3,
                bytes / time / 1e12,
                peak / 1e12);
    EXPECT_GT(bytes / time, peak / 2);
  }
}

TEST(RowwiseGpu, NormWithoutABranch) {
  const Function f = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], at::Tensor(), x[1]);
    return Tensors{y};
  };
  expect_kernel_is_exact(f, {{{517, 768}, kWide}, {{768}, kWide}});
}

TEST(RowwiseGpu, GatedNorm) {
  const Function f = [](const Tensors& x) { return Tensors{gated_norm(x[0], x[1], x[2])}; };
  for (const std::int64_t head : {32, 64, 128})
    expect_kernel_is_exact(f,
                           {{{1031, 3, head}, kHalf}, {{1031, 3, head}, kHalf}, {{head}, kWide}});
}

TEST(RowwiseGpu, SwiGlu) {
  const Function f = [](const Tensors& x) { return Tensors{fused_swiglu(x[0])}; };
  expect_kernel_is_exact(f, {{{1031, 4096}, kHalf}});
  expect_kernel_is_exact(f, {{{3, 16}, kHalf}});
}

TEST(RowwiseGpu, BiasGelu) {
  const Function f = [](const Tensors& x) { return Tensors{fused_bias_gelu(x[0], x[1])}; };
  expect_kernel_is_exact(f, {{{1031, 3072}, kHalf}, {{3072}, kWide}});
  expect_kernel_is_exact(f, {{{70001, 264}, kHalf}, {{264}, kWide}}); // a group of 8 columns
  expect_kernel_is_exact(f, {{{3, 8}, kHalf}, {{8}, kWide}});
}

// By the kernels, and by LibTorch's sum what they do not take: other strides, an odd address or
// type.
TEST(RowwiseGpu, ColumnSum) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  for (const auto& [rows, width] : {std::pair(1, 8),
                                    std::pair(3, 768),
                                    std::pair(1031, 2304),
                                    std::pair(32768, 768),
                                    std::pair(70001, 264),
                                    std::pair(33, 70000),
                                    std::pair(517, 13),
                                    std::pair(517, 1)}) {
    const at::Tensor given = drawn({{{rows, width}, kHalf}}).front();
    const at::Tensor expected = given.to(at::kDouble).sum(0);
    const at::Tensor on_device = given.to(at::kCUDA);
    const at::Tensor columns = on_device.t().contiguous().t(), shifted = [&] {
      const at::Tensor wide = at::empty({rows * width + 1}, on_device.options());
      return wide.narrow(0, 1, rows * width).view({rows, width}).copy_(on_device);
    }();
    for (const at::Tensor& x : {on_device, columns, shifted, on_device.to(kWide)}) {
      const at::Tensor sum = column_sum(x, kWide);
      EXPECT_EQ(sum.scalar_type(), kWide);
      EXPECT_EQ(sum.sizes(), at::IntArrayRef({width}));
      EXPECT_LE(relative_rms(sum.to(at::kCPU, at::kDouble), expected), 1e-5)
          << rows << " x " << width;
    }
    EXPECT_TRUE(at::equal(column_sum(on_device, kWide), column_sum(on_device, kWide)));
    EXPECT_EQ(column_sum(on_device, kHalf).scalar_type(), kHalf);
  }
}

// The gradients of family `gpt`'s biases: prints the times, and fails below half of the bandwidth
// of a copy.
TEST(RowwiseGpu, ColumnSumReadsItsBytesAtTheSpeedOfACopy) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(kHalf);
  const at::Tensor from = at::empty({std::int64_t{1} << 29}, options), to = at::empty_like(from);
  const double peak = 2 * static_cast<double>(from.nbytes()) / seconds([&] { to.copy_(from); });
  for (const std::int64_t width : {768, 2304, 3072}) {
    const at::Tensor x = at::randn({131072, width}, options);
    const double time = seconds([&] { (void)column_sum(x, kWide); }),
                 before = seconds([&] { (void)x.sum(0, false, kWide); });
    const double rate = static_cast<double>(x.nbytes()) / time;
    std::printf("    width %ld: %.1f us, %.2f TB/s; LibTorch's sum %.1f us; a copy: %.2f TB/s\n",
                static_cast<long>(width),
                time * 1e6,
                rate / 1e12,
                before * 1e6,
                peak / 1e12);
    EXPECT_GT(rate, peak / 2);
  }
}

} // namespace rowwise_gpu_test
} // namespace assay
