// How often the intervals of two runs contain the truth, from visits to states. Seeds are fixed.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/analysis/unpaired/two_runs.h"

namespace assay {
namespace unpaired_simulation_test {

constexpr int kReplicates = 250;

struct Rates {
  double times = 0, effects = 0; // share of intervals that contain the true change
};

// Two runs of one build; between them the machine slows down by `drift`, and the candidate gains
// `gain` more. Launches differ by 5 %, a variant's contrast by 0.5 %.
Rates rates(double drift, double gain) {
  Rates covered;
  for (int r = 0; r < kReplicates; ++r) {
    const auto run = [&](std::uint64_t seed, double slower, double effect) {
      synthetic::SyntheticPlan plan = plan_of(synthetic::two_level_cell(effect));
      plan.seed = seed;
      plan.rounds = 8;
      plan.launch_sd = 0.005;
      plan.cells[0].unit_ns *= std::exp(slower);
      LedgerData data = synthetic::synthetic_ledger(plan);
      data.spec.alpha = 3 * 0.05; // shared by three comparisons
      return data;
    };
    const auto seed = static_cast<std::uint64_t>(2 * r);
    const UnpairedReport report = value_or_throw(
        test::compared(run(1000 + seed, 0, -0.1), run(1001 + seed, drift, -0.1 - gain)));
    covered.times += test::time_of(report, "slow").runs.interval->contains(0);
    covered.effects += report.cells.at(0).effects.at(0).runs.interval->contains(-gain);
  }
  return {covered.times / kReplicates, covered.effects / kReplicates};
}

double margin(double rate) { // the binomial 99.9 % range
  return 3.3 * std::sqrt(rate * (1 - rate) / kReplicates);
}

TEST(TwoRunsSimulation, WithoutDriftBothIntervalsCover) {
  const Rates quiet = rates(0, 0);
  EXPECT_NEAR(quiet.times, 0.956, margin(0.05));
  EXPECT_NEAR(quiet.effects, 0.956, margin(0.05));
}

// The interval of times contains no drift: 15 % between the runs, three times what launches
// differ by, and it hardly ever covers. The difference of the paired effects is as good as before.
TEST(TwoRunsSimulation, DriftRuinsTimesAndLeavesPairedEffects) {
  const Rates drifted = rates(0.15, 0.02);
  EXPECT_LT(drifted.times, 0.10);
  EXPECT_NEAR(drifted.effects, 0.956, margin(0.05));
}

} // namespace unpaired_simulation_test
} // namespace assay
