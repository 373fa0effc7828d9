// The MDE of a plan from the scatter of results that are there.
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/analysis/report.h"
#include "tests/experiments/runner_fixture.h"

namespace assay {
namespace {

using namespace test;

std::string with_launches(int launches) {
  std::string matrix = kSmallMatrix;
  const std::string two = "launches = 2";
  return matrix.replace(matrix.find(two), two.size(), "launches = " + std::to_string(launches));
}

TEST_F(RunnerTest, ThePlanTakesItsMdeFromEarlierResults) {
  plan_ = small_plan(scratch_, with_launches(kFullLaunches));
  run();
  const Report earlier = judge_results(ledger());
  const PlanEstimate known = estimate(plan_, {}, &earlier), assumed = estimate(plan_);
  ASSERT_EQ(known.cells.size(), 2u);
  const CellReport& cell = earlier.cells[0];
  double widest = *cell.control->comparison.effect->mde; // the same launches, rounds and alpha
  for (const Comparison& comparison : cell.comparisons)
    widest = std::max(widest, *comparison.effect->mde);
  EXPECT_TRUE(known.cells[0].mde_from_results);
  EXPECT_NEAR(*known.cells[0].mde, widest, 1e-9);
  EXPECT_FALSE(assumed.cells[0].mde_from_results);
  EXPECT_GT(*assumed.cells[0].mde, 2 * widest) << "an assumed scatter of 10 %";
}

// Two launches have no scatter to speak of; three are fewer than a report's MDE needs.
TEST_F(RunnerTest, ThePlanTakesNoScatterFromTwoLaunches) {
  run();
  const Report earlier = judge_results(ledger());
  EXPECT_FALSE(estimate(plan_, {}, &earlier).cells[0].mde_from_results);
}

TEST_F(RunnerTest, ResultsOfAnotherConfigurationSayNothing) {
  plan_ = small_plan(scratch_, with_launches(kProvisionalLaunches));
  run();
  const Report earlier = judge_results(ledger());
  std::string matrix = kSmallMatrix;
  matrix.insert(matrix.find("preset"), "seq_len = 256\n");
  const PlanEstimate other = estimate(small_plan(scratch_, matrix), {}, &earlier);
  EXPECT_FALSE(other.cells[0].mde_from_results);
  EXPECT_EQ(other.pair_sd, kPairSdCpu);
}

} // namespace
} // namespace assay
