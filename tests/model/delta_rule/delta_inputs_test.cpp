// What the gated delta rule takes: the fused function against plain autograd through a slow loop
// over tokens and against the operator form in fp64, numerical gradients, documents and order.
#include <gtest/gtest.h>

#include <cmath>

#include "model/gates/gates.h"
#include "tests/model/delta_rule/delta_inputs_fixture.h"

namespace assay {
namespace delta_inputs_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kHeads = 3, kWidth = 8, kInner = kHeads * kWidth;
const std::vector<std::int32_t> kEnds{0, 1, 3, 6, 10, 15, 17, 40};

// docs/model.md token by token.
DeltaRuleInputs
slow_inputs(const at::Tensor& projected, const DeltaInputWeights& w, const Segments& segments) {
  const std::vector<std::int32_t>& cu = segments.cu_host;
  Tensors rows;
  for (std::size_t i = 1; i < cu.size(); ++i)
    for (std::int64_t t = cu[i - 1]; t < cu[i]; ++t) {
      at::Tensor sum = at::zeros({3 * kInner}, projected.options());
      for (std::int64_t j = 0; j < w.conv.size(1) && t - j >= cu[i - 1]; ++j)
        sum = sum + w.conv.select(1, j) * projected[t - j].narrow(0, 0, 3 * kInner);
      rows.push_back((sum / (1 + at::exp(-sum))).view({3 * kHeads, kWidth}));
    }
  const at::Tensor y = at::stack(rows);
  const auto unit = [](const at::Tensor& x) { return x / at::sqrt((x * x).sum(2, true) + 1e-6); };
  const auto columns = [&](std::int64_t first, std::int64_t count) {
    return projected.narrow(1, first, count);
  };
  return {unit(y.narrow(1, 0, kHeads)),
          unit(y.narrow(1, kHeads, kHeads)),
          y.narrow(1, 2 * kHeads, kHeads),
          -at::exp(w.a_log) * at::log(1 + at::exp(columns(4 * kInner, kHeads) + w.dt_bias)),
          1 / (1 + at::exp(-columns(4 * kInner + kHeads, kHeads))),
          columns(3 * kInner, kInner).view({projected.size(0), kHeads, kWidth})};
}

void expect_same(DeltaInputForm actual_form, DeltaInputForm expected_form, double bound) {
  const DeltaInputSample sample = delta_input_sample(kEnds.back(), kHeads, kWidth);
  const Segments segments = delta_input_segments(kEnds, at::kCPU);
  const Tensors actual = delta_input_results(actual_form, sample, segments),
                expected = delta_input_results(expected_form, sample, segments);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), bound) << kDeltaInputNames[i];
}

TEST(DeltaInputs, FusedEqualsTheSlowLoopInDouble) {
  expect_same(delta_inputs_fused, slow_inputs, 1e-13);
}

TEST(DeltaInputs, OperatorsEqualTheSlowLoopInDouble) {
  expect_same(delta_inputs_ops, slow_inputs, 1e-13);
}

// The derivative along a random direction, by a central difference of fourth order, of the weighted
// sum of the operator form's results.
TEST(DeltaInputs, FusedGradientsAreTheNumericalOnesOfTheOperators) {
  const DeltaInputSample sample = delta_input_sample(kEnds.back(), kHeads, kWidth);
  const Segments segments = delta_input_segments(kEnds, at::kCPU);
  const Tensors results = delta_input_results(delta_inputs_fused, sample, segments);
  const at::NoGradGuard no_grad;
  for (std::size_t input = 0; input < sample.inputs.size(); ++input) {
    const at::Tensor direction = at::linspace(-2, 3, sample.inputs[input].numel(), at::kDouble)
                                     .cos()
                                     .view_as(sample.inputs[input]);
    const auto value = [&](double step) {
      Tensors x = sample.inputs;
      x[input] = x[input] + step * direction;
      const Tensors out = as_list(delta_inputs_ops(x[0], {x[1], x[2], x[3]}, segments));
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i)
        sum += (out[i] * sample.grads[i]).sum().item<double>();
      return sum;
    };
    constexpr double kStep = 3e-4;
    const double numerical =
        (8 * (value(kStep) - value(-kStep)) - (value(2 * kStep) - value(-2 * kStep))) /
        (12 * kStep);
    const double own = (results[6 + input] * direction).sum().item<double>();
    EXPECT_LE(std::abs(own - numerical), 1e-9 * std::abs(numerical)) << kDeltaInputNames[6 + input];
  }
}

// A changed segment leaves every result and gradient of the others as it was, bit for bit.
TEST(DeltaInputs, AnotherSegmentChangesNoBit) {
  DeltaInputSample sample = delta_input_sample(kEnds.back(), kHeads, kWidth);
  const Segments segments = delta_input_segments(kEnds, at::kCPU);
  const Tensors before = delta_input_results(delta_inputs_fused, sample, segments);
  sample.inputs[0].narrow(0, 6, 4).fill_(3);
  for (at::Tensor& grad : sample.grads) grad.narrow(0, 6, 4).fill_(-2);
  const Tensors after = delta_input_results(delta_inputs_fused, sample, segments);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_TRUE(at::equal(before[i].narrow(0, 0, 6), after[i].narrow(0, 0, 6)))
        << kDeltaInputNames[i];
    EXPECT_TRUE(at::equal(before[i].narrow(0, 10, 30), after[i].narrow(0, 10, 30)))
        << kDeltaInputNames[i];
    EXPECT_FALSE(at::equal(before[i], after[i])) << kDeltaInputNames[i];
  }
}

// A later token changes no result of an earlier one, and changes those of the next three.
TEST(DeltaInputs, ResultsDependOnThreeTokensBefore) {
  DeltaInputSample sample = delta_input_sample(kEnds.back(), kHeads, kWidth);
  const Segments segments = delta_input_segments(kEnds, at::kCPU);
  const Tensors before = delta_input_results(delta_inputs_fused, sample, segments);
  sample.inputs[0][25].fill_(1);
  const Tensors after = delta_input_results(delta_inputs_fused, sample, segments);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::int64_t t = 17; t < 40; ++t)
      EXPECT_EQ(at::equal(before[i][t], after[i][t]), t < 25 || t > 28)
          << kDeltaInputNames[i] << " " << t;
}

TEST(DeltaInputs, FusedKeepsTheTypeOfItsInput) {
  const DeltaInputSample sample = delta_input_sample(kEnds.back(), kHeads, kWidth);
  const Segments segments = delta_input_segments(kEnds, at::kCPU);
  Tensors x;
  for (const at::Tensor& input : sample.inputs) x.push_back(input.to(at::kFloat));
  const DeltaRuleInputs half =
      delta_inputs_fused(x[0].to(at::kBFloat16), {x[1], x[2], x[3]}, segments);
  for (const at::Tensor& y : {half.q, half.k, half.v, half.gate})
    EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_EQ(half.g.scalar_type(), at::kFloat);
  EXPECT_EQ(half.beta.scalar_type(), at::kFloat);
  const Tensors exact = delta_input_results(slow_inputs, sample, segments);
  EXPECT_LE(relative_rms(half.q, exact[0]), 1e-2);
  EXPECT_LE(relative_rms(half.g, exact[3]), 1e-2);
}

} // namespace delta_inputs_test
} // namespace assay
