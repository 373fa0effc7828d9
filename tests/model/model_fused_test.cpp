// The fused functions against plain autograd through the operators that they replace, in fp64.
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <functional>

#include "model/gates/gates.h"
#include "model/layers/add_norm.h"
#include "model/layers/gelu.h"
#include "model/layers/layer_norm.h"
#include "model/layers/rms_norm.h"
#include "model/layers/swiglu.h"

namespace assay {
namespace model_fused_test {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

at::Tensor drawn(at::IntArrayRef shape, double shift = 0) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  return at::empty(shape, at::kDouble).normal_(shift, 1, generator);
}

// Results of `f`, then the gradients of a weighted sum of those results for which `used` is true.
Tensors results(const Function& f, const Tensors& inputs, const std::vector<bool>& used) {
  Tensors leaves;
  for (const at::Tensor& x : inputs) leaves.push_back(x.detach().clone().requires_grad_());
  const Tensors out = f(leaves);
  at::Tensor total = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (used[i])
      total =
          total +
          (out[i] * at::linspace(-1, 2, out[i].numel(), at::kDouble).view_as(out[i]).cos()).sum();
  total.backward();
  Tensors all;
  for (const at::Tensor& x : out) all.push_back(x.detach());
  for (const at::Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

void expect_same(const Function& fused,
                 const Function& plain,
                 const Tensors& inputs,
                 const std::vector<bool>& used) {
  const Tensors actual = results(fused, inputs, used), expected = results(plain, inputs, used);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i].defined()) continue;
    ASSERT_TRUE(actual[i].defined()) << i;
    EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-12) << i;
  }
}

TEST(Fused, AddNormHasTheGradientsOfItsOperators) {
  const Function fused = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], x[1], x[2]);
    return Tensors{sum, y};
  };
  const Function plain = [](const Tensors& x) {
    const at::Tensor sum = x[0] + x[1];
    return Tensors{sum, sum * (sum * sum).mean(-1, true).add(kNormEps).rsqrt() * x[2]};
  };
  const Tensors inputs{drawn({7, 12}), drawn({7, 12}), drawn({12}, 1)};
  expect_same(fused, plain, inputs, {true, true});
  expect_same(fused, plain, inputs, {false, true});
  expect_same(fused, plain, inputs, {true, false});
}

TEST(Fused, AddNormWithoutABranchIsTheNorm) {
  const Function fused = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], at::Tensor(), x[1]);
    return Tensors{sum, y};
  };
  const Function plain = [](const Tensors& x) {
    return Tensors{x[0] * 1, x[0] * (x[0] * x[0]).mean(-1, true).add(kNormEps).rsqrt() * x[1]};
  };
  expect_same(fused, plain, {drawn({5, 8}), drawn({8}, 1)}, {true, true});
  expect_same(fused, plain, {drawn({5, 8}), drawn({8}, 1)}, {false, true});
}

TEST(Fused, AddLayerNormHasTheGradientsOfItsOperators) {
  const Function fused = [](const Tensors& x) {
    const auto [sum, y] = add_norm(x[0], x[1], x[2], x[3]);
    return Tensors{sum, y};
  };
  const Function plain = [](const Tensors& x) {
    const at::Tensor sum = x[0] + x[1];
    return Tensors{sum, at::layer_norm(sum, {12}, x[2], x[3], kLayerNormEps)};
  };
  const Tensors inputs{drawn({7, 12}, 3), drawn({7, 12}), drawn({12}, 1), drawn({12})};
  expect_same(fused, plain, inputs, {true, true});
  expect_same(fused, plain, inputs, {false, true});
  expect_same(fused, plain, inputs, {true, false});
  const Function first = [](const Tensors& x) {
    return Tensors{add_norm(x[0], at::Tensor(), x[1], x[2]).second};
  };
  const Function norm = [](const Tensors& x) {
    return Tensors{at::layer_norm(x[0], {12}, x[1], x[2], kLayerNormEps)};
  };
  expect_same(first, norm, {inputs[0], inputs[2], inputs[3]}, {true});
}

// Multiples of 1/16 up to 4: sums of two of them are exact in bf16.
at::Tensor drawn_in_steps(at::IntArrayRef shape) {
  return drawn(shape).mul(16).round().clamp(-64, 64).div(16);
}

// Each result and gradient in the type of the stream is rounded once; nothing before it is.
TEST(Fused, AddNormOfA16BitStreamRoundsWhatItStoresAlone) {
  const Tensors given{
      drawn_in_steps({7, 12}), drawn_in_steps({7, 12}), drawn_in_steps({12}), drawn_in_steps({12})};
  for (const bool layer : {false, true}) {
    const Function f = [&](const Tensors& x) {
      const auto [sum, y] = add_norm(x[0], x[1], x[2], layer ? x[3] : at::Tensor());
      return Tensors{sum, y};
    };
    const auto run = [&](at::ScalarType stream, at::ScalarType weight) {
      Tensors inputs{given[0].to(stream), given[1].to(stream), given[2].to(weight)};
      if (layer) inputs.push_back(given[3].to(weight));
      return results(f, inputs, {true, true});
    };
    const Tensors actual = run(at::kBFloat16, at::kFloat), expected = run(at::kDouble, at::kDouble);
    for (const std::size_t i : {0U, 1U, 2U, 3U}) EXPECT_EQ(actual[i].scalar_type(), at::kBFloat16);
    EXPECT_TRUE(at::equal(actual[0], expected[0].to(at::kBFloat16))) << "an exact sum";
    for (std::size_t i = 1; i < expected.size(); ++i)
      EXPECT_LE(relative_rms(actual[i], expected[i]), 5e-3) << i; // seeds are rounded as well
  }
}

TEST(Fused, A16BitStreamIsNormedAsItIsStored) {
  const at::Tensor x = drawn({7, 12}).to(at::kBFloat16), branch = drawn({7, 12}).to(at::kBFloat16),
                   weight = drawn({12}, 1).to(at::kFloat);
  const auto [sum, y] = add_norm(x, branch, weight);
  EXPECT_TRUE(at::equal(sum, (x.to(at::kFloat) + branch.to(at::kFloat)).to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(y, add_norm(sum, at::Tensor(), weight).second));
}

TEST(Fused, GatedNormHasTheGradientsOfItsOperators) {
  const Function fused = [](const Tensors& x) { return Tensors{gated_norm(x[0], x[1], x[2])}; };
  const Function plain = [](const Tensors& x) {
    const at::Tensor r = (x[0] * x[0]).mean(-1, true).add(kNormEps).rsqrt();
    return Tensors{x[0] * r * x[2] * at::silu(x[1])};
  };
  expect_same(fused, plain, {drawn({6, 3, 8}), drawn({6, 3, 8}), drawn({8}, 1)}, {true});
}

TEST(Fused, SwiGluHasTheGradientsOfItsOperators) {
  const Function fused = [](const Tensors& x) { return Tensors{fused_swiglu(x[0])}; };
  const Function plain = [](const Tensors& x) {
    const std::vector<at::Tensor> halves = x[0].chunk(2, 1);
    return Tensors{at::silu(halves[0]) * halves[1]};
  };
  expect_same(fused, plain, {drawn({9, 20})}, {true});
}

TEST(Fused, BiasGeluHasTheGradientsOfItsOperators) {
  const Function fused = [](const Tensors& x) { return Tensors{fused_bias_gelu(x[0], x[1])}; };
  const Function plain = [](const Tensors& x) { return Tensors{at::gelu(x[0] + x[1], "tanh")}; };
  expect_same(fused, plain, {drawn({9, 20}) * 2, drawn({20})}, {true});
}

// The result and the gradient of the input are rounded once; the bias's gradient is fp32.
TEST(Fused, BiasGeluOf16BitsRoundsWhatItReturnsAlone) {
  const Function f = [](const Tensors& x) { return Tensors{fused_bias_gelu(x[0], x[1])}; };
  const at::Tensor in = drawn({9, 20}).to(at::kBFloat16), bias = drawn({20}).to(at::kFloat);
  const Tensors actual = results(f, {in, bias}, {true});
  const Tensors expected = results(f, {in.to(at::kDouble), bias.to(at::kDouble)}, {true});
  EXPECT_EQ(actual[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(actual[1].scalar_type(), at::kBFloat16);
  EXPECT_EQ(actual[2].scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(actual[0], expected[0].to(at::kFloat).to(at::kBFloat16)));
  for (std::size_t i = 1; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), 5e-3) << i; // seeds are rounded as well
}

} // namespace model_fused_test
} // namespace assay
