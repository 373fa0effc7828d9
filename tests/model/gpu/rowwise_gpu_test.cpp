// The row kernels on a GPU in bf16 against the same functions in fp64 on the CPU: results and
// gradients; the same bits from run to run.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>

#include "model/gates/gates.h"
#include "model/layers/add_norm.h"
#include "model/layers/autocast.h"
#include "model/layers/swiglu.h"

namespace assay {
namespace {

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

void expect_kernel_is_exact(const Function& f, const std::vector<Input>& inputs) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Tensors in = drawn(inputs);
  const Tensors expected = results(f, on(in, at::kCPU, true));
  const Tensors actual = results(f, on(in, at::kCUDA, false));
  const Tensors again = results(f, on(in, at::kCUDA, false));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double limit = actual[i].scalar_type() == at::kFloat ? 1e-4 : 4e-3;
    EXPECT_LE(relative_rms(actual[i].to(at::kCPU, at::kDouble), expected[i]), limit) << i;
    EXPECT_TRUE(at::equal(actual[i], again[i])) << i;
  }
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

} // namespace
} // namespace assay
