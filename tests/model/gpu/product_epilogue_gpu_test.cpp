// Products by cuBLASLt that compute GELU and sum biases' gradients, on a GPU: against fp64, as a
// graph, and what falls back.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "core/fallback.h"
#include "model/gates/gates.h"
#include "model/layers/autocast.h"
#include "model/layers/gelu_feed_forward.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/linear/lt_product.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace product_epilogue_gpu_test {

using Tensors = std::vector<at::Tensor>;

constexpr double kBound = 5e-3; // of results and gradients in bf16, as attention's
constexpr Epilogue kLevels[] = {Epilogue::Gelu, Epilogue::GeluBias, Epilogue::All};
const char* const kNames[] = {"y", "dx", "dW_in", "d in_bias", "dW_out", "d out_bias"};

class ProductEpilogueGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

std::int64_t noted() {
  return fallbacks()["fallback/epilogue"];
}

at::Tensor normal(at::IntArrayRef shape, double scale, at::ScalarType type) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(12);
  // Multiples of bf16 also in fp32: rounding the operands is not what is measured.
  return at::empty(shape).normal_(0, scale, generator).to(at::kBFloat16).to(at::kCUDA, type);
}

// Leaves as the trainer has them: x in bf16, weights and biases in fp32.
struct Inputs {
  Tensors leaves; // x, W_in, in_bias, W_out, out_bias
  at::Tensor dy;

  Inputs(std::int64_t tokens, std::int64_t width, std::int64_t hidden) {
    const double in = 1 / std::sqrt(static_cast<double>(width)),
                 out = 1 / std::sqrt(static_cast<double>(hidden));
    leaves = {normal({tokens, width}, 1, at::kBFloat16),
              normal({hidden, width}, in, at::kFloat),
              normal({hidden}, 0.5, at::kFloat),
              normal({width, hidden}, out, at::kFloat),
              normal({width}, 0.5, at::kFloat)};
    for (at::Tensor& leaf : leaves) leaf.requires_grad_();
    dy = normal({tokens, width}, 1, at::kBFloat16);
  }
  GeluWeights weights() const { return {leaves[1], leaves[2], leaves[3], leaves[4]}; }
};

// The result, then the gradients of all leaves.
Tensors results(const Tensors& leaves, const at::Tensor& y, const at::Tensor& dy) {
  Tensors all =
      torch::autograd::grad({y}, {leaves.begin(), leaves.end()}, {dy.to(y.scalar_type())});
  all.insert(all.begin(), y.detach());
  return all;
}

Tensors expected(const Inputs& in) {
  Tensors l;
  for (const at::Tensor& leaf : in.leaves)
    l.push_back(leaf.detach().to(at::kDouble).requires_grad_());
  return results(l, at::linear(at::gelu(at::linear(l[0], l[1], l[2]), "tanh"), l[3], l[4]), in.dy);
}

// As a trainer: the backward pass has no autocast.
Tensors run(const Inputs& in, Epilogue level, KeptWeights* kept = nullptr) {
  // Memory that is not written shows as NaN.
  (void)at::full({in.leaves[0].size(0), in.leaves[1].size(0)}, NAN, in.dy.options());
  at::Tensor y;
  {
    const AutocastGuard autocast(at::kCUDA, at::kBFloat16);
    const KeptGuard guard(kept);
    y = gelu_feed_forward(in.leaves[0], in.weights(), level);
  }
  return y.defined() ? results(in.leaves, y, in.dy) : Tensors();
}

void expect_near(const Tensors& actual, const Tensors& reference, const std::string& what) {
  ASSERT_EQ(actual.size(), reference.size()) << what << " fell back";
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_LE(relative_rms(actual[i].to(at::kDouble), reference[i]), kBound)
        << kNames[i] << ", " << what;
}

// The step of GPT-2, a batch of no round number, the tests' small model, and other multiples of 8.
TEST_F(ProductEpilogueGpu, EveryLevelIsTheFeedForward) {
  for (const auto& [tokens, width, hidden] : {std::tuple(32768, 768, 3072),
                                              std::tuple(1031, 768, 3072),
                                              std::tuple(96, 32, 64),
                                              std::tuple(517, 72, 264)}) {
    const Inputs in(tokens, width, hidden);
    const Tensors reference = expected(in);
    KeptWeights copies(at::kBFloat16);
    const std::int64_t before = noted();
    for (const Epilogue level : kLevels)
      for (KeptWeights* kept : {static_cast<KeptWeights*>(nullptr), &copies})
        expect_near(run(in, level, kept),
                    reference,
                    fmt::format("level {}, {} x {} x {}, weights {}",
                                static_cast<int>(level),
                                tokens,
                                width,
                                hidden,
                                kept == nullptr ? "cast" : "kept"));
    EXPECT_EQ(noted(), before) << tokens << " x " << width << " x " << hidden;
  }
}

// GELU of every magnitude. Exact GELU differs by up to 4.7e-4, which rounding hides but for
// negative values.
TEST_F(ProductEpilogueGpu, GeluIsTheTanhForm) {
  const at::TensorOptions half = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const at::Tensor x = at::linspace(-12, 12, 4096).to(half).view({64, 64}),
                   identity = at::eye(64, half), ones = at::ones({64, 64}, half);
  ASSERT_TRUE(lt_takes_gelu(x, at::kBFloat16, identity, identity, false));
  const auto [y, in] = lt_gelu(x, identity, at::zeros({64}, half));
  EXPECT_TRUE(at::equal(in, x));
  const at::Tensor wide = x.to(at::kDouble), tanh = at::gelu(wide, "tanh");
  const auto near = [](const at::Tensor& a, const at::Tensor& b, double bound) {
    return ((a.to(at::kDouble) - b).abs() <= b.abs() * 0x1p-8 + bound).all().item<bool>();
  };
  EXPECT_TRUE(near(y, tanh, 2e-3));
  EXPECT_TRUE(near(lt_gelu_gradient(ones, identity, in, false).in,
                   at::gelu_backward(at::ones_like(wide), wide, "tanh"),
                   5e-3));
  const at::Tensor differs = wide.gt(-4).logical_and(wide.lt(-1));
  const auto off = [&](const at::Tensor& form) {
    return (y.to(at::kDouble) - form).abs().masked_select(differs).mean().item<double>();
  };
  EXPECT_LT(off(tanh), off(at::gelu(wide, "none")));
}

// Of the linears around attention: the product of the weight's gradient sums the bias's.
TEST_F(ProductEpilogueGpu, AWeightsGradientSumsTheBiases) {
  for (const auto& [tokens, in, out] : {std::tuple(32768, 768, 2304),
                                        std::tuple(32768, 768, 768),
                                        std::tuple(1031, 768, 768),
                                        std::tuple(96, 32, 96)}) {
    const at::Tensor dy = normal({tokens, out}, 1, at::kBFloat16),
                     x = normal({tokens, in}, 1, at::kBFloat16);
    const std::int64_t before = noted();
    const auto [weight, bias] = linear_gradients(dy, x, at::kFloat, true, {.sum = true});
    EXPECT_EQ(noted(), before) << tokens << " x " << in << " -> " << out;
    EXPECT_EQ(weight.scalar_type(), at::kFloat);
    EXPECT_EQ(bias.scalar_type(), at::kFloat);
    const at::Tensor wide = dy.to(at::kDouble);
    EXPECT_LE(relative_rms(weight.to(at::kDouble), at::mm(wide.t(), x.to(at::kDouble))), 1e-4);
    EXPECT_LE(relative_rms(bias.to(at::kDouble), wide.sum(0)), 1e-4);
  }
}

// Transposed, expanded, and at an odd address: each is copied.
TEST_F(ProductEpilogueGpu, TakesAnyStrides) {
  const at::Tensor x = normal({512, 64}, 1, at::kBFloat16), w = normal({128, 64}, 0.1, at::kFloat),
                   bias = normal({128}, 1, at::kFloat), half = w.to(at::kBFloat16);
  ASSERT_TRUE(lt_takes_gelu(x, at::kBFloat16, w, w.t(), true));
  const at::Tensor shifted = at::empty({512 * 64 + 1}, x.options()).narrow(0, 1, 512 * 64);
  shifted.copy_(x.view(-1));
  const auto [y, in] = lt_gelu(x, half, bias);
  for (const at::Tensor& other : {x.t().contiguous().t(), shifted.view({512, 64})}) {
    const auto [again, again_in] = lt_gelu(other, half, bias);
    EXPECT_TRUE(at::equal(again, y) && at::equal(again_in, in));
  }
  const at::Tensor dy = at::ones({1, 1}, x.options()).expand({512, 64});
  const auto of = [&](const at::Tensor& grad) {
    return lt_gelu_gradient(grad, half.t(), in, true);
  };
  EXPECT_TRUE(at::equal(of(dy).in, of(dy.contiguous()).in));
}

TEST_F(ProductEpilogueGpu, OddWidthsAndOtherTypesFallBackAndSayIt) {
  for (const auto& [width, hidden] : {std::pair(60, 128), std::pair(64, 132)})
    for (const Epilogue level : kLevels) {
      const Inputs in(64, width, hidden);
      const std::int64_t before = noted();
      EXPECT_TRUE(run(in, level).empty());
      EXPECT_EQ(noted(), before + 1);
    }
  const Inputs in(64, 64, 128);
  const std::int64_t before = noted();
  EXPECT_FALSE(gelu_feed_forward(in.leaves[1], in.weights(), Epilogue::Gelu).defined()) << "fp32";
  EXPECT_EQ(noted(), before + 1);
  const at::Tensor dy = normal({64, 60}, 1, at::kBFloat16), x = normal({64, 64}, 1, at::kBFloat16);
  const auto [weight, bias] = linear_gradients(dy, x, at::kFloat, true, {.sum = true});
  EXPECT_EQ(noted(), before + 2);
  EXPECT_LE(relative_rms(bias.to(at::kDouble), dy.to(at::kDouble).sum(0)), 1e-5);
  EXPECT_EQ(weight.sizes(), at::IntArrayRef({60, 64}));
}

// Forward and backward captured once, and replayed with inputs that the capture never saw.
TEST_F(ProductEpilogueGpu, AGraphTakesOtherInputs) {
  for (const Epilogue level : kLevels) {
    const Inputs fixed(1024, 768, 3072), other(1024, 768, 3072);
    KeptWeights copies(at::kBFloat16);
    const c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
    c10::cuda::device_synchronize();
    at::cuda::CUDAGraph graph;
    Tensors captured;
    {
      const c10::cuda::CUDAStreamGuard guard(stream);
      for (int i = 0; i < 2; ++i) (void)run(fixed, level, &copies);
      c10::cuda::device_synchronize();
      graph.capture_begin();
      captured = run(fixed, level, &copies);
      graph.capture_end();
      const at::NoGradGuard no_grad;
      for (std::size_t i = 0; i < fixed.leaves.size(); ++i)
        fixed.leaves[i].detach().copy_(other.leaves[i]);
      at::Tensor(fixed.dy).copy_(other.dy);
      copies.refresh();
      c10::cuda::device_synchronize();
      graph.replay();
    }
    c10::cuda::device_synchronize();
    expect_near(captured, expected(other), fmt::format("replayed, {}", static_cast<int>(level)));
  }
}

// Every level of the whole model runs what it names.
TEST_F(ProductEpilogueGpu, TheModelRunsEachLevel) {
  const Optimization& row = *optimizations().find("epilogue");
  for (const Level& level : row.levels) {
    TrainConfig config = testing_model::small_config_for(row);
    config.device = Device::Cuda;
    level.apply(config);
    config = value_or_throw(resolve(config));
    const CodePath seen = record_code_path(row, config, testing_model::ragged_batches(config, 1));
    const bool none = &level == &row.levels.front();
    EXPECT_EQ(seen.counters.count("kernel/lt_gelu"), none ? 0U : 1U) << level.name;
    EXPECT_EQ(seen.spans.count("ffn_gate/fused"), none ? 1U : 0U) << level.name;
    EXPECT_EQ(seen.counters.count("fallback/epilogue"), 0U) << level.name;
  }
}

} // namespace product_epilogue_gpu_test
} // namespace assay
