// How a budget is spent on launches and rounds.
#include "app/assay/plan_budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/statistics/statistics.h"

namespace assay::cli {
namespace budget_test {

// A launch costs `start` seconds and a round .1; pairs scatter by `pair_sd` within launches, and
// launches by `launch_sd`.
EstimateOf machine(double start, double pair_sd, double launch_sd) {
  return [=](int launches, int rounds) {
    CellEstimate cell;
    cell.launches = launches;
    cell.rounds = rounds;
    const double variance = launch_sd * launch_sd + 1.57 * pair_sd * pair_sd / rounds;
    cell.mde = minimum_detectable_effect(std::sqrt(variance), launches, 0.05, 0.8);
    PlanEstimate plan;
    plan.seconds = 20 + launches * (start + 0.1 * rounds);
    plan.cells = {cell};
    return plan;
  };
}

TEST(Budget, IsKeptAndUsed) {
  for (const double budget : {120.0, 600.0, 3600.0}) {
    const BudgetChoice best = choose_for_budget(budget, machine(5, 0.1, 0.002));
    EXPECT_LE(best.seconds, budget);
    EXPECT_GT(best.seconds, 0.9 * budget) << budget;
    EXPECT_EQ(best.rounds % 2, 0);
  }
}

// No other plan of the budget detects less.
TEST(Budget, TheLeastEffectIsDetected) {
  const EstimateOf of = machine(5, 0.1, 0.002);
  const BudgetChoice best = choose_for_budget(600, of);
  for (int launches = 5; launches <= 20; ++launches)
    for (int rounds = 6; rounds <= 2000; rounds += 2) {
      const PlanEstimate other = of(launches, rounds);
      if (*other.seconds > 600) break;
      EXPECT_GE(*other.cells[0].mde, best.mde * (1 - 1e-9)) << launches << " x " << rounds;
    }
}

TEST(Budget, ScatterOfLaunchesAsksForLaunchesAndTheirCostForRounds) {
  const BudgetChoice launches = choose_for_budget(600, machine(5, 0.01, 0.01));
  const BudgetChoice rounds = choose_for_budget(600, machine(40, 0.3, 0));
  EXPECT_EQ(launches.launches, 20);
  EXPECT_LE(rounds.launches, 8);
  EXPECT_GT(rounds.rounds, launches.rounds);
}

TEST(Budget, RoundsOfCellsTheirOwnStay) {
  const EstimateOf fixed = [](int launches, int) { return machine(5, 0.1, 0)(launches, 40); };
  const BudgetChoice best = choose_for_budget(3600, fixed);
  EXPECT_EQ(best.launches, 20);
  EXPECT_EQ(best.rounds, 0);
  EXPECT_EQ(choose_for_budget(20 + 14.5 * 9, fixed).launches, 14);
}

TEST(Budget, ATimeThatFitsNoPlanIsSaid) {
  const BudgetChoice none = choose_for_budget(30, machine(5, 0.1, 0));
  EXPECT_EQ(none.launches, 0);
  EXPECT_TRUE(budget_json(none)["best"].is_null());
}

} // namespace budget_test
} // namespace assay::cli
