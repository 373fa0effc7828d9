// The feed-forward whose products compute GELU, without a GPU: its function and gradients in fp64,
// what is refused, and sums of biases' gradients.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/fallback.h"
#include "kernels/products/lt_products.h"
#include "model/gates/gates.h"
#include "model/layers/autocast.h"
#include "model/layers/gelu_feed_forward.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/linear/lt_product.h"
#include "tests/model/gpt/gpt_fixture.h"

namespace assay {
namespace product_epilogue_test {

using testing::HasSubstr;
using testing_model::small_config_for;
using Tensors = std::vector<at::Tensor>;

constexpr Epilogue kLevels[] = {Epilogue::Gelu, Epilogue::GeluBias, Epilogue::All};

// Leaves x, W_in, its bias, W_out and its bias, and what the result is multiplied with.
struct Inputs {
  Tensors leaves;
  at::Tensor weights;

  explicit Inputs(at::ScalarType type) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(4);
    const auto normal = [&](at::IntArrayRef shape) {
      return at::empty(shape, at::kDouble).normal_(0, 1, generator).to(type);
    };
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{37, 12}, {20, 12}, {20}, {12, 20}, {12}})
      leaves.push_back(normal(shape).requires_grad_());
    weights = normal({37, 12});
  }
  GeluWeights feed_forward() const { return {leaves[1], leaves[2], leaves[3], leaves[4]}; }
};

// The result, then the gradients of all leaves.
Tensors results(const Inputs& in, const at::Tensor& y) {
  Tensors all =
      torch::autograd::grad({y}, {in.leaves.begin(), in.leaves.end()}, {in.weights.to(y.dtype())});
  all.insert(all.begin(), y.detach());
  return all;
}

Tensors expected(const Inputs& in) {
  const Tensors& l = in.leaves;
  return results(in, at::linear(at::gelu(at::linear(l[0], l[1], l[2]), "tanh"), l[3], l[4]));
}

void expect_near(const Tensors& actual, const Tensors& reference, double bound) {
  const char* const names[] = {"y", "dx", "dW_in", "d in_bias", "dW_out", "d out_bias"};
  ASSERT_EQ(actual.size(), reference.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], reference[i]), bound) << names[i];
}

TEST(ProductEpilogue, IsTheFeedForwardInFp64) {
  const Inputs in(at::kDouble);
  const std::int64_t before = fallbacks()["fallback/epilogue"];
  for (const Epilogue level : kLevels)
    expect_near(results(in, gelu_feed_forward(in.leaves[0], in.feed_forward(), level)),
                expected(in),
                1e-13);
  EXPECT_EQ(fallbacks()["fallback/epilogue"], before);
}

// Weights cast or kept; their gradients are not rounded to bf16.
TEST(ProductEpilogue, IsNearFp64InBf16) {
  const Inputs in(at::kFloat), exact(at::kDouble);
  const Tensors reference = expected(exact);
  KeptWeights copies(at::kBFloat16);
  for (KeptWeights* kept : {static_cast<KeptWeights*>(nullptr), &copies})
    for (const Epilogue level : kLevels) {
      const at::Tensor y = [&] { // a trainer's backward pass has no autocast
        const AutocastGuard autocast(at::kCPU, at::kBFloat16);
        const KeptGuard guard(kept);
        return gelu_feed_forward(in.leaves[0], in.feed_forward(), level);
      }();
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      const Tensors all = results(in, y);
      for (const std::size_t weight : {2, 4}) {
        const at::Tensor& gradient = all[weight];
        EXPECT_EQ(gradient.scalar_type(), at::kFloat);
        EXPECT_FALSE(at::equal(gradient.to(at::kBFloat16).to(at::kFloat), gradient)) << weight;
      }
      expect_near(all, reference, 1e-2);
    }
  EXPECT_EQ(copies.size(), 2U);
}

TEST(ProductEpilogue, NoneLeavesTheFeedForwardToItsCaller) {
  const Inputs in(at::kFloat);
  const std::int64_t before = fallbacks()["fallback/epilogue"];
  EXPECT_FALSE(gelu_feed_forward(in.leaves[0], in.feed_forward(), Epilogue::None).defined());
  EXPECT_EQ(fallbacks()["fallback/epilogue"], before);
}

// What cuBLASLt does not take is known before any call of it.
TEST(ProductEpilogue, NoProductOfCublasLtTakesACpusMatrices) {
  const at::Tensor x = at::zeros({16, 32}, at::kBFloat16), in = at::zeros({64, 32}, at::kBFloat16);
  EXPECT_FALSE(lt_takes_gelu(x, at::kBFloat16, in, in.t(), true));
  EXPECT_FALSE(lt_sums_left(x, x, at::kFloat));
}

TEST(ProductEpilogue, LinearsHaveOneGradientHoweverBiasesAreSummed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(6);
  const at::Tensor dy = at::empty({33, 24}).normal_(0, 1, generator).to(at::kBFloat16),
                   x = at::empty({33, 16}).normal_(0, 1, generator).to(at::kBFloat16);
  const std::int64_t before = fallbacks()["fallback/epilogue"];
  for (const bool products_sum : {false, true}) {
    const auto [weight, bias] = linear_gradients(dy, x, at::kFloat, true, {.sum = products_sum});
    EXPECT_LE(relative_rms(weight, at::mm(dy.to(at::kFloat).t(), x.to(at::kFloat))), 1e-6);
    EXPECT_LE(relative_rms(bias, dy.to(at::kFloat).sum(0)), 1e-6);
    EXPECT_FALSE(linear_gradients(dy, x, at::kFloat, false, {.sum = products_sum}).bias.defined());
  }
  EXPECT_EQ(fallbacks()["fallback/epilogue"], before) << "a CPU has one way";
}

TEST(ProductEpilogue, ShapesOfTwoFormsShareNoAlgorithm) {
  using lt_products::Form, lt_products::Shape;
  const Shape gradient{Form::GeluGradient, 8, 16, 24}, summed{Form::GeluGradientSum, 8, 16, 24},
      longer{Form::GeluGradient, 9, 16, 24};
  EXPECT_TRUE(gradient < summed);
  EXPECT_TRUE(gradient < longer);
  EXPECT_FALSE(gradient < gradient);
}

// A level without what it replaces, or without what cuBLASLt takes, is refused in any training.
TEST(ProductEpilogue, ALevelIsRefusedByName) {
  const Optimization& row = *optimizations().find("epilogue");
  const auto refusal = [&](const char* level, const std::function<void(TrainConfig&)>& change) {
    TrainConfig config = small_config_for(row);
    row.level(level)->apply(config);
    EXPECT_TRUE(resolve(config)) << level;
    change(config);
    const Result<TrainConfig> resolved = resolve(config);
    return resolved ? std::string() : resolved.error().message;
  };
  for (const char* level : {"gelu", "gelu_bias", "all"}) {
    const std::string key = std::string("key 'epilogue' = ") + level + " needs ";
    EXPECT_THAT(refusal(level, [](TrainConfig& c) { c.ffn_gate = FfnGate::Ops; }),
                HasSubstr(key + "ffn_gate = fused"));
    EXPECT_THAT(refusal(level, [](TrainConfig& c) { c.precision = Precision::Fp8; }),
                HasSubstr(key + "precision = bf16"));
    EXPECT_EQ(refusal(level, [](TrainConfig& c) { c.device = Device::Cuda; }), "");
    EXPECT_THAT(refusal(level,
                        [](TrainConfig& c) {
                          c.device = Device::Cuda;
                          c.precision = Precision::Fp32;
                          c.weights16 = Weights16::Cast;
                        }),
                HasSubstr(key + "precision = bf16"));
    TrainConfig other;
    row.level(level)->apply(other);
    EXPECT_THAT(resolve(other).error().message, HasSubstr(key + "family gpt"));
  }
  EXPECT_THAT(refusal("all", [](TrainConfig& c) { c.weights16 = Weights16::Cast; }),
              HasSubstr("weights16 = kept"));
  EXPECT_EQ(refusal("gelu_bias", [](TrainConfig& c) { c.weights16 = Weights16::Cast; }), "");
}

} // namespace product_epilogue_test
} // namespace assay
