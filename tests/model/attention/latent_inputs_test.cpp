// What latent attention takes: three forms of rotation and the fused functions against plain
// autograd through a slow loop over pairs, numerical gradients, documents.
#include <gtest/gtest.h>

#include <cmath>

#include "model/gates/gates.h"
#include "tests/model/attention/latent_inputs_fixture.h"

namespace assay {
namespace latent_inputs_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

constexpr LatentSizes kSizes{3, 8, 12, 10};
const std::vector<std::int32_t> kEnds{0, 1, 3, 6, 10, 15, 17, 40};

// docs/model.md pair by pair.
Tensors slow_inputs(const Tensors& x, const Rotary& rotary, std::int64_t heads) {
  const std::int64_t rank = x[2].size(0), rope = x[1].size(1) - rank, tokens = x[1].size(0);
  const at::Tensor q = x[0].view({tokens, heads, -1}), up = x[3].view({tokens, heads, -1});
  const std::int64_t plain = q.size(2) - rope;
  const auto turned = [&](const at::Tensor& y) { // [T, heads, R]
    Tensors columns;
    for (std::int64_t i = 0; i < rope / 2; ++i) {
      const at::Tensor c = rotary.cos.select(2, i), s = rotary.sin.select(2, i);
      columns.push_back(y.select(2, 2 * i) * c - y.select(2, 2 * i + 1) * s);
      columns.push_back(y.select(2, 2 * i + 1) * c + y.select(2, 2 * i) * s);
    }
    return at::stack(columns, 2);
  };
  const at::Tensor latent = x[1].narrow(1, 0, rank), key = x[1].narrow(1, rank, rope);
  Tensors keys;
  for (std::int64_t h = 0; h < heads; ++h)
    keys.push_back(
        at::cat({up.select(1, h).narrow(1, 0, plain), turned(key.unsqueeze(1)).squeeze(1)}, 1));
  return {latent / at::sqrt((latent * latent).mean(1, true) + 1e-6) * x[2],
          at::cat({q.narrow(2, 0, plain), turned(q.narrow(2, plain, rope))}, 2),
          at::stack(keys, 1),
          up.narrow(2, plain, plain)};
}

class LatentInputs : public testing::Test {
protected:
  LatentSample sample_ = latent_sample(kEnds.back(), kSizes);
  Rotary rotary_ = latent_rotary(kEnds, kSizes);
};

// Results and gradients of `form`.
void expect_slow(const LatentForm& form, const LatentSample& sample, const Rotary& rotary) {
  const Tensors actual = latent_results(form, sample, rotary),
                expected = latent_results(slow_inputs, sample, rotary);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-14) << kLatentNames[i];
}

TEST_F(LatentInputs, FusedEqualsTheSlowLoopInDouble) {
  expect_slow(latent_fused, sample_, rotary_);
}

TEST_F(LatentInputs, EveryRotationEqualsTheSlowLoopInDouble) {
  for (const MlaInputs form :
       {MlaInputs::Ops, MlaInputs::RotaryTranspose, MlaInputs::RotaryComplex}) {
    SCOPED_TRACE(static_cast<int>(form));
    expect_slow(latent_operators(rotary_form(form)), sample_, rotary_);
  }
  EXPECT_EQ(rotary_form(MlaInputs::RotaryTranspose), rotate_transposed);
  EXPECT_EQ(rotary_form(MlaInputs::RotaryComplex), rotate_complex);
}

// The derivative along a random direction, by a central difference of fourth order, of the weighted
// sum of the operator form's results.
TEST_F(LatentInputs, FusedGradientsAreTheNumericalOnesOfTheOperators) {
  const Tensors results = latent_results(latent_fused, sample_, rotary_);
  const LatentForm operators = latent_operators(rotary_form(MlaInputs::Ops));
  const at::NoGradGuard no_grad;
  for (std::size_t input = 0; input < sample_.inputs.size(); ++input) {
    const at::Tensor direction = at::linspace(-2, 3, sample_.inputs[input].numel(), at::kDouble)
                                     .cos()
                                     .view_as(sample_.inputs[input]);
    const auto value = [&](double step) {
      Tensors x = sample_.inputs;
      x[input] = x[input] + step * direction;
      const Tensors out = operators(x, rotary_, kSizes.heads);
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        sum += (out[i] * sample_.grads[i]).sum().item<double>();
      return sum;
    };
    constexpr double kStep = 3e-4;
    const double numerical =
        (8 * (value(kStep) - value(-kStep)) - (value(2 * kStep) - value(-2 * kStep))) /
        (12 * kStep);
    const double own = (results[4 + input] * direction).sum().item<double>();
    EXPECT_LE(std::abs(own - numerical), 1e-9 * std::abs(numerical)) << kLatentNames[4 + input];
  }
}

// A changed token leaves every result and gradient of the others as it was, bit for bit.
TEST_F(LatentInputs, AnotherTokenChangesNoBit) {
  const Tensors before = latent_results(latent_fused, sample_, rotary_);
  for (const std::size_t i : {0, 1, 3}) sample_.inputs[i].narrow(0, 6, 4).fill_(3);
  for (at::Tensor& grad : sample_.grads) grad.narrow(0, 6, 4).fill_(-2);
  const Tensors after = latent_results(latent_fused, sample_, rotary_);
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].dim() == 1) continue; // the weight's gradient is a sum over tokens
    EXPECT_TRUE(at::equal(before[i].narrow(0, 0, 6), after[i].narrow(0, 0, 6))) << kLatentNames[i];
    EXPECT_TRUE(at::equal(before[i].narrow(0, 10, 30), after[i].narrow(0, 10, 30)))
        << kLatentNames[i];
    EXPECT_FALSE(at::equal(before[i], after[i])) << kLatentNames[i];
  }
}

// Equal tokens at equal places of two segments are the same rows; at other places they are not.
TEST_F(LatentInputs, PositionsRestartWithTheSegment) {
  const LatentSample sample = latent_sample(6, kSizes);
  Tensors x = sample.inputs;
  for (const std::size_t i : {0, 1, 3}) x[i] = x[i].narrow(0, 0, 3).repeat({2, 1});
  const auto halves_are_equal = [&](const std::vector<std::int32_t>& ends) {
    const Tensors out = latent_fused(x, latent_rotary(ends, kSizes), kSizes.heads);
    return at::equal(out[1].narrow(0, 0, 3), out[1].narrow(0, 3, 3)) &&
           at::equal(out[2].narrow(0, 0, 3), out[2].narrow(0, 3, 3));
  };
  EXPECT_TRUE(halves_are_equal({0, 3, 6}));
  EXPECT_FALSE(halves_are_equal({0, 6}));
}

TEST_F(LatentInputs, FusedKeepsTheTypeOfItsInput) {
  Tensors x;
  for (const at::Tensor& input : sample_.inputs) x.push_back(input.to(at::kBFloat16));
  x[2] = x[2].to(at::kFloat); // a weight
  const Tensors half = latent_fused(x, rotary_, kSizes.heads),
                exact = slow_inputs(sample_.inputs, rotary_, kSizes.heads);
  for (std::size_t i = 0; i < half.size(); ++i) {
    EXPECT_EQ(half[i].scalar_type(), at::kBFloat16) << kLatentNames[i];
    EXPECT_LE(relative_rms(half[i], exact[i]), 1e-2) << kLatentNames[i];
  }
}

} // namespace latent_inputs_test
} // namespace assay
