// What the rules of judging cannot see, in figures (docs/statistics.md, "Limits"). Seeds are fixed.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/statistics/statistics.h"
#include "core/statistics/tost.h"
#include "experiments/analysis/report.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace error_rates_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using Random = std::mt19937_64;

constexpr int kLossTests = 5000;

// Share of loss tests that pass although the mean difference is the margin. `draw`: the difference
// of one seed in units of the margin, with mean 1.
template <class Draw> double pass_rate(std::size_t seeds, Draw draw) {
  Random random(61);
  int passed = 0;
  for (int r = 0; r < kLossTests; ++r) {
    std::vector<double> differences(seeds);
    for (double& value : differences) value = draw(random);
    passed += tost(differences, 1)->interval.upper < 1;
  }
  return static_cast<double>(passed) / kLossTests;
}

double binomial_margin(double rate) {
  return 3.3 * std::sqrt(rate * (1 - rate) / kLossTests);
}

double waiting_time(Random& random) { // mean 1, skewness 2
  return std::exponential_distribution<>(1)(random);
}

// Both sides of a seed train alike, so a common shift leaves their difference symmetric, however
// skewed the losses are: such tests keep their level.
TEST(LossSimulation, SkewedLossesOfBothSidesKeepTheLevel) {
  const auto shifted = [](Random& random) {
    const double b = waiting_time(random), a = waiting_time(random);
    return 1 + 0.1 * (b - a);
  };
  for (const std::size_t seeds : {4u, 8u, 16u})
    EXPECT_LE(pass_rate(seeds, shifted), 0.05 + binomial_margin(0.05)) << seeds;
}

// A candidate alone with rare large losses is another matter, and more seeds help little.
TEST(LossSimulation, ASkewedCandidatePassesTooOften) {
  const auto skewed = [](Random& random) { return 1 + 0.1 * (waiting_time(random) - 1); };
  EXPECT_NEAR(pass_rate(4, skewed), 0.16, binomial_margin(0.16));
  EXPECT_NEAR(pass_rate(16, skewed), 0.12, binomial_margin(0.12));
  const auto one_in_ten = [](Random& random) {
    return (std::bernoulli_distribution(0.1)(random) ? 10 : 0) +
           0.1 * std::normal_distribution<>()(random);
  };
  // No test sees what no seed shows: 0.9^n.
  EXPECT_NEAR(pass_rate(4, one_in_ten), std::pow(0.9, 4), binomial_margin(0.65));
  EXPECT_NEAR(pass_rate(16, one_in_ten), std::pow(0.9, 16), binomial_margin(0.19));
}

// Four visits in a hundred wait for a core. What exclusion by a share of the visit then adds to the
// effect, in points; the same noise with and without. Every delay lies between the limits of the
// two sides, the worst case: delays of every length (exponential) add less than 0.03 points.
double bias(double effect) {
  constexpr int kReports = 20;
  constexpr double kVisitNs = 15e6, kLimit = 0.25; // of the work: 20 % of work and delay
  Random random(62);
  std::bernoulli_distribution waits(0.04);
  double sum = 0;
  for (int r = 0; r < kReports; ++r) {
    SyntheticPlan plan = plan_of(two_level_cell(effect));
    plan.seed = 1000 + static_cast<std::uint64_t>(r);
    plan.noise = 0.06;
    LedgerData data = synthetic_ledger(plan);
    const double before = first(judge_results(data)).effect->theta.value;
    for (VisitRow& visit : data.visits) {
      visit.covariates.run_delay_share = 0;
      if (!waits(random)) continue;
      const double delay_ns = kLimit * std::exp(effect / 2) * kVisitNs;
      visit.wall_ns += std::llround(delay_ns);
      visit.covariates.run_delay_share = delay_ns / static_cast<double>(visit.wall_ns);
    }
    sum += first(judge_results(data)).effect->theta.value - before;
  }
  return 100 * sum / kReports;
}

// The limit is a share of the visit, so the longer side may wait longer: an effect looks larger by
// 2 % of itself at most, and none appears where there is none.
TEST(ExclusionSimulation, UnequalVisitsStretchAnEffectAndMakeNone) {
  EXPECT_NEAR(bias(0), 0, 0.2);
  const double slower = bias(0.15), faster = bias(-0.15);
  EXPECT_GT(slower, 0.1);
  EXPECT_LT(slower, 0.5);
  EXPECT_LT(faster, -0.1);
  EXPECT_GT(faster, -0.5);
}

// The control is judged by as many launches as a verdict: what biases both by 2 % at a spread of 1
// % shows in it a little less often. Eight launches see most of it.
TEST(Control, SeesABiasAboutAsOftenAsAVerdictShowsIt) {
  EXPECT_NEAR(t_test_power(0.02, 0.01, 5, kControlAlarmP), 0.374, 0.001);
  EXPECT_NEAR(t_test_power(0.02, 0.01, 5, 0.05 / 7), 0.460, 0.001);
  EXPECT_NEAR(t_test_power(0.02, 0.01, 8, kControlAlarmP), 0.886, 0.001);
}

} // namespace error_rates_test
} // namespace assay
