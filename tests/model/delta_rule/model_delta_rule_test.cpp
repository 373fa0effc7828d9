// The chunk form of the gated delta rule against the recurrence and against central differences, in
// fp64.
#include <gtest/gtest.h>

#include <functional>

#include "model/gates/gates.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_delta_rule_test {

using testing_model::DeltaInputs;
using testing_model::make_segments;
using testing_model::random_delta_inputs;

struct Case {
  const char* name;
  std::vector<std::int32_t> cu;
  double decay;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int32_t length : {1, 2, 15, 63, 64, 65, 130})
    all.push_back({"one", {0, length}, 1.0});
  all.push_back({"ragged", {0, 1, 2, 67, 131, 132, 150}, 1.0});
  all.push_back({"several_go_on", {0, 130, 200, 270, 280}, 0.2});
  all.push_back({"equal", {0, 64, 128, 192}, 1.0});
  all.push_back({"ones", {0, 1, 2, 3, 4}, 1.0});
  all.push_back({"no_decay", {0, 30, 130}, 0.0});
  all.push_back({"sudden_decay", {0, 30, 130}, 80.0});
  return all;
}

at::Tensor
run(decltype(gated_delta_rule_naive)& rule, const DeltaInputs& in, const Segments& segments) {
  return rule(in.q, in.k, in.v, in.g, in.beta, segments);
}

class DeltaRuleCases : public testing::TestWithParam<Case> {};

const std::pair<const char*, DeltaRule> kForms[] = {{"chunked", gated_delta_rule_chunked},
                                                    {"fused", gated_delta_rule_fused}};

TEST_P(DeltaRuleCases, FormsEqualTheRecurrence) {
  const Segments segments = make_segments(GetParam().cu, 2, 64);
  const DeltaInputs in = random_delta_inputs(GetParam().cu.back(), 2, 8, 6, 1, GetParam().decay);
  for (const auto& [name, form] : kForms)
    EXPECT_LE(relative_rms(run(*form, in, segments), run(gated_delta_rule_naive, in, segments)),
              1e-10)
        << name;
}

// Gradients of a random weighted sum of the outputs, by either form.
std::vector<at::Tensor>
gradients(decltype(gated_delta_rule_naive)& rule, DeltaInputs in, const Segments& segments) {
  for (at::Tensor* x : {&in.q, &in.k, &in.v, &in.g, &in.beta})
    *x = x->detach().clone().requires_grad_();
  const at::Tensor out = run(rule, in, segments);
  const at::Tensor weights = at::linspace(-1, 1, out.numel(), at::kDouble).view_as(out).cos();
  (out * weights).sum().backward();
  return {in.q.grad(), in.k.grad(), in.v.grad(), in.g.grad(), in.beta.grad()};
}

TEST_P(DeltaRuleCases, GradientsEqualThoseOfTheRecurrence) {
  const Segments segments = make_segments(GetParam().cu, 2, 64);
  const DeltaInputs in = random_delta_inputs(GetParam().cu.back(), 2, 8, 6, 2, GetParam().decay);
  const auto expected = gradients(gated_delta_rule_naive, in, segments);
  const char* names[] = {"q", "k", "v", "g", "beta"};
  for (const auto& [name, form] : kForms) {
    const auto actual = gradients(*form, in, segments);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double size = std::max(1.0, expected[i].abs().max().item<double>());
      EXPECT_LE((actual[i] - expected[i]).abs().max().item<double>() / size, 1e-10)
          << name << ", " << names[i];
    }
  }
}

// Central differences along each input's coordinate, a sample of them for long inputs.
TEST_P(DeltaRuleCases, ChunkedGradientsEqualCentralDifferences) {
  const Segments segments = make_segments(GetParam().cu, 2, 64);
  const DeltaInputs in = random_delta_inputs(GetParam().cu.back(), 2, 4, 3, 3, GetParam().decay);
  const auto analytic = gradients(gated_delta_rule_chunked, in, segments);
  const at::Tensor inputs[] = {in.q, in.k, in.v, in.g, in.beta};
  const char* names[] = {"q", "k", "v", "g", "beta"};
  const at::NoGradGuard no_grad;
  const auto loss = [&] {
    const at::Tensor out = run(gated_delta_rule_chunked, in, segments);
    return (out * at::linspace(-1, 1, out.numel(), at::kDouble).view_as(out).cos())
        .sum()
        .item<double>();
  };
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < 5; ++i) {
    double* values = inputs[i].data_ptr<double>();
    const at::Tensor expected = analytic[i].contiguous();
    const std::int64_t stride = std::max<std::int64_t>(1, inputs[i].numel() / 11);
    for (std::int64_t at = 0; at < inputs[i].numel(); at += stride) {
      const double kept = values[at];
      values[at] = kept + kStep;
      const double up = loss();
      values[at] = kept - kStep;
      const double down = loss();
      values[at] = kept;
      EXPECT_NEAR((up - down) / (2 * kStep), expected.data_ptr<double>()[at], 1e-6)
          << names[i] << " at " << at;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, DeltaRuleCases, testing::ValuesIn(cases()), [](const auto& row) {
  return std::string(row.param.name) + "_" + std::to_string(row.param.cu.back());
});

TEST(DeltaRuleForms, FusedTakesFewerHeadsOfQAndK) {
  const Segments segments = make_segments({0, 70, 100}, 6, 64);
  DeltaInputs in = random_delta_inputs(100, 6, 8, 5, 6);
  in.q = in.q.narrow(1, 0, 2), in.k = in.k.narrow(1, 2, 2);
  EXPECT_LE(relative_rms(run(gated_delta_rule_fused, in, segments),
                         run(gated_delta_rule_naive, in, segments)),
            1e-10);
  const auto expected = gradients(gated_delta_rule_naive, in, segments),
             actual = gradients(gated_delta_rule_fused, in, segments);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-10) << i;
}

TEST(DeltaRuleForms, OtherChunkSizesAgree) {
  const DeltaInputs in = random_delta_inputs(100, 3, 8, 8, 4);
  const at::Tensor expected = run(gated_delta_rule_naive, in, make_segments({0, 70, 100}, 3, 64));
  for (const std::int64_t chunk : {1, 7, 16, 32, 128})
    EXPECT_LE(relative_rms(run(gated_delta_rule_chunked, in, make_segments({0, 70, 100}, 3, chunk)),
                           expected),
              1e-10)
        << chunk;
}

TEST(DeltaRuleForms, BitEqualForDocumentsWhoseNeighboursChange) {
  const Segments segments = make_segments({0, 40, 110, 130}, 2, 64);
  DeltaInputs in = random_delta_inputs(130, 2, 8, 8, 5);
  for (at::Tensor* x : {&in.q, &in.k, &in.v, &in.g, &in.beta}) *x = x->to(at::kFloat);
  const at::Tensor before = run(gated_delta_rule_chunked, in, segments);
  for (at::Tensor* x : {&in.q, &in.k, &in.v, &in.g, &in.beta}) x->narrow(0, 40, 70).mul_(0.7);
  const at::Tensor after = run(gated_delta_rule_chunked, in, segments);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 40), after.narrow(0, 0, 40)));
  EXPECT_TRUE(at::equal(before.narrow(0, 110, 20), after.narrow(0, 110, 20)));
  EXPECT_FALSE(at::equal(before.narrow(0, 40, 70), after.narrow(0, 40, 70)));
}

// Hand-computed: K = V = 1, two tokens. S1 = b1 v1 k1; S2 = e^{g2} S1 + k2 b2 (v2 - e^{g2} S1 k2);
// o_t = S_t q_t.
TEST(DeltaRuleForms, TwoTokensByHand) {
  const auto column = [](double a, double b) {
    return at::tensor({a, b}, at::kDouble).view({2, 1, 1});
  };
  const at::Tensor q = column(2, 3), k = column(0.5, 0.25), v = column(4, 5);
  const at::Tensor g = at::tensor({-0.1, std::log(0.5)}, at::kDouble).view({2, 1});
  const at::Tensor beta = at::tensor({0.5, 0.75}, at::kDouble).view({2, 1});
  const double s1 = 0.5 * 4 * 0.5, decayed = 0.5 * s1,
               s2 = decayed + 0.25 * 0.75 * (5 - decayed * 0.25);
  const Segments segments = make_segments({0, 2}, 1, 16);
  for (auto* rule : {&gated_delta_rule_naive, &gated_delta_rule_chunked}) {
    const at::Tensor out = (*rule)(q, k, v, g, beta, segments).view(-1);
    EXPECT_NEAR(out[0].item<double>(), s1 * 2, 1e-12);
    EXPECT_NEAR(out[1].item<double>(), s2 * 3, 1e-12);
  }
}

} // namespace model_delta_rule_test
} // namespace assay
