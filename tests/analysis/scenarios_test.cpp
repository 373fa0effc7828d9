// Twelve situations, a hundred seeds each, through the whole analysis: green where nothing was
// gained in at most 1 %, red where nothing was lost in at most 5 %. And the level, coverage and
// power of the effect itself.
#include <gtest/gtest.h>

#include <cmath>

#include "core/statistics/statistics.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace scenarios_test {

using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;

constexpr int kSeeds = 100;

struct Scenario {
  const char* name;
  SyntheticPlan plan;
  bool may_be_green, may_be_red;
  std::string expected; // a word of the headline that at least 80 seeds show, or ""
};

SyntheticPlan base(double effect) {
  SyntheticPlan plan;
  plan.rounds = 30;
  plan.launch_sd = 0.003;
  plan.cells = {two_level_cell(effect)};
  plan.claims = {step_time_claim(0.08, 0.12)};
  return plan;
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all;
  const auto add = [&](const char* name, double effect, bool green, bool red, const char* expected)
      -> SyntheticPlan& {
    all.push_back({name, base(effect), green, red, expected});
    return all.back().plan;
  };
  const double claimed = std::log(0.88), small = std::log(0.96);
  add("nothing, no claim", 0, false, false, "").claims.clear();
  add("nothing, launches differ", 0, false, true, "").launch_sd = 0.02; // the claim may be refuted
  add("as claimed", claimed, true, false, "faster");
  add("less than claimed", small, true, false, "less than claimed");
  add("slower", std::log(1.06), false, true, "slower");
  add("faster, quality unknown", claimed, false, false, "unproven").cells[0].equivalence =
      "objective";
  add("parity fails", claimed, false, true, "rejected").cells[0].levels[1].gate_passes = false;
  add("not engaged", claimed, false, false, "not engaged").cells[0].levels[1].engaged = false;
  add("contended", claimed, false, false, "disturbed").cells[0].disturbed_share = 0.2;
  add("NaN in the candidate", claimed, false, true, "harms").cells[0].levels[1].nan_in_launch = 2;
  add("control biased", claimed, false, false, "invalid").cells[0].control_effect = 0.15;
  add("two launches", claimed, false, false, "incomplete").cells[0].timed_launches = 2;
  return all;
}

TEST(Scenarios, WrongGreenAndWrongRedAreRare) {
  int green_chances = 0, wrong_green = 0, red_chances = 0, wrong_red = 0;
  const auto all = scenarios();
  ASSERT_EQ(all.size(), 12u);
  for (const Scenario& scenario : all) {
    int as_expected = 0;
    for (int seed = 1; seed <= kSeeds; ++seed) {
      SyntheticPlan plan = scenario.plan;
      plan.seed = static_cast<std::uint64_t>(1000 * seed);
      const Report report = judge_results(synthetic_ledger(plan));
      const Headline head = headline(report.cells[0].comparisons[0].verdict);
      as_expected += head.text.find(scenario.expected) != std::string::npos;
      green_chances += !scenario.may_be_green;
      wrong_green += !scenario.may_be_green && head.tone == Tone::Good;
      red_chances += !scenario.may_be_red;
      wrong_red += !scenario.may_be_red && head.tone == Tone::Bad;
    }
    EXPECT_GE(as_expected, 80) << scenario.name;
  }
  EXPECT_LE(wrong_green, 0.01 * green_chances);
  EXPECT_LE(wrong_red, 0.05 * red_chances);
}

// One experiment of the given true effect.
Comparison experiment(double effect, std::uint64_t seed, double launch_sd) {
  SyntheticPlan plan;
  plan.seed = seed;
  plan.rounds = 24;
  plan.launch_sd = launch_sd;
  plan.sesoi = 1e-6; // no effect is too small here
  plan.cells = {two_level_cell(effect)};
  return judge_results(synthetic_ledger(plan)).cells[0].comparisons[0];
}

double margin(double rate, int n) {
  return 3.3 * std::sqrt(rate * (1 - rate) / n);
}

TEST(SimulatedEffect, FalseAlarmsStayAtAlphaUnderLaunchEffects) {
  constexpr int kExperiments = 500;
  int alarms = 0, covered = 0;
  for (int i = 0; i < kExperiments; ++i) {
    const Comparison null = experiment(0, static_cast<std::uint64_t>(7000 + i), 0.01);
    const Speed by_median = judge_speed(null.effect->theta, 1e-6);
    alarms += by_median == Speed::Faster || by_median == Speed::Slower;
    covered += null.effect->theta.at_95->contains(0);
  }
  EXPECT_LE(alarms, kExperiments * (0.05 + margin(0.05, kExperiments)));
  EXPECT_GE(alarms, kExperiments * (0.05 - margin(0.05, kExperiments)))
      << "a test that never alarms is no test";
  EXPECT_EQ(covered, kExperiments - alarms);
}

TEST(SimulatedEffect, IntervalCoversAPlantedEffectAndTheMdeIsSeen) {
  constexpr int kExperiments = 400;
  int covered = 0;
  double square = 0; // s_L^2 is unbiased, s_L is not
  for (int i = 0; i < kExperiments; ++i) {
    const Comparison planted = experiment(0.05, static_cast<std::uint64_t>(9000 + i), 0.005);
    covered += planted.effect->theta.at_95->contains(0.05);
    square += std::pow(*planted.effect->mde, 2) / kExperiments;
  }
  EXPECT_NEAR(covered, 0.95 * kExperiments, margin(0.05, kExperiments) * kExperiments);
  int seen = 0;
  for (int i = 0; i < kExperiments; ++i)
    seen +=
        experiment(std::sqrt(square), static_cast<std::uint64_t>(12000 + i), 0.005).verdict.speed ==
        Speed::Slower;
  EXPECT_NEAR(seen, 0.8 * kExperiments, margin(0.2, kExperiments) * kExperiments);
}

} // namespace scenarios_test
} // namespace assay
