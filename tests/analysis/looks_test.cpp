// Cells whose results decide how many launches they run.
#include "experiments/analysis/looks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/statistics/looks.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace looks_test {

using namespace synthetic;
using testing::HasSubstr;

// After `launches` of them; looks after 5, 8 and 12.
LedgerData after(int launches, double effect, double launch_sd, std::uint64_t seed = 3) {
  SyntheticCell cell = two_level_cell(effect);
  cell.timed_launches = launches;
  cell.launch_sd = launch_sd;
  SyntheticPlan plan;
  plan.seed = seed;
  plan.noise = 0.002;
  plan.tail_share = 0;
  plan.cells = {cell};
  LedgerData data = synthetic_ledger(plan);
  data.cells[0].launches = 12;
  data.cells[0].looks = {5, 8, 12};
  return data;
}

void look(LedgerData& data, int index, const char* cause) {
  for (const LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed && launch.index == index)
      data.events.push_back({launch.id, -1, "", "look", "", 0, cause});
}

TEST(CellLooks, ALargeEffectAndNoneAreDecidedAtOnce) {
  EXPECT_TRUE(is_decided(after(5, -0.1, 0.001), 1));
  EXPECT_TRUE(is_decided(after(5, 0, 0.0005), 1)); // inside +-1 %
  EXPECT_FALSE(is_decided(after(5, -0.01, 0.02), 1));
}

TEST(CellLooks, AClaimKeepsACellOpen) {
  LedgerData data = after(5, -0.03, 0.01); // FASTER, with 0.5 to 5 %
  EXPECT_TRUE(is_decided(data, 1));
  data.claims = {step_time_claim(0.03, 0.05)};
  EXPECT_FALSE(is_decided(data, 1));
  data.claims = {step_time_claim(0.3, 0.5)}; // out of reach
  EXPECT_TRUE(is_decided(data, 1));
}

TEST(CellLooks, MoreLaunchesDoNotHelpARejectedLevel) {
  LedgerData data = after(5, -0.01, 0.02);
  for (GateRow& gate : data.gates) gate.passed = false;
  EXPECT_TRUE(is_decided(data, 1));
}

TEST(CellLooks, VerdictsHaveTheLevelOfTheirLook) {
  LedgerData data = after(5, -0.1, 0.001);
  const std::vector<double> levels = look_levels(0.05, {5, 8, 12});
  Report report = judge_results(data);
  EXPECT_DOUBLE_EQ(report.judged_alpha, 0.05);
  EXPECT_DOUBLE_EQ(report.cells[0].judged_alpha, levels[0]);
  const Estimate& theta = report.cells[0].comparisons[0].effect->theta;
  EXPECT_DOUBLE_EQ(theta.judged->upper, t_interval(theta.by_launch, levels[0])->upper);
  EXPECT_EQ(report.cells[0].planned_launches, 5);
  EXPECT_EQ(report.missing.size(), 0u);
  look(data, 5, kCauseDecided);
  report = judge_results(data);
  EXPECT_THAT(looks_text(report.cells[0]), HasSubstr("look 1 of 3"));
  EXPECT_DOUBLE_EQ(report.cells[0].judged_alpha, levels[0]);
  data.events.back().cause = kCauseOpen;
  report = judge_results(data);
  EXPECT_DOUBLE_EQ(report.cells[0].judged_alpha, levels[1]);
  EXPECT_EQ(report.cells[0].planned_launches, 8);
  EXPECT_EQ(report.missing.size(), 1u);
}

// By the engine's rule: how many of 150 cells are called different, where nothing differs and where
// 1.5 % do; launch values scatter by 1 %, and half a percent is the smallest effect of interest.
TEST(CellLooksSimulation, FalseVerdictsAndPowerOverAllLooks) {
  constexpr int kCells = 150;
  const auto called = [](double effect, int& launches) {
    int different = 0;
    for (int seed = 1; seed <= kCells; ++seed)
      for (const int count : {5, 8, 12}) {
        LedgerData data = after(count, effect, 0.01, static_cast<std::uint64_t>(seed));
        data.spec.sesoi = 0.005;
        if (count > 5) look(data, 5, kCauseOpen);
        if (count > 8) look(data, 8, kCauseOpen);
        const bool decided = is_decided(data, 1);
        if (!decided && count < 12) continue;
        const Speed speed = judge_results(data).cells[0].comparisons[0].verdict.speed;
        different += speed == Speed::Faster || speed == Speed::Slower;
        launches += count;
        break;
      }
    return different;
  };
  int none = 0, some = 0;
  EXPECT_LE(called(0, none), 17); // 7.5 expected, 99.9 % bound
  EXPECT_GE(called(-0.015, some), 138);
  EXPECT_LT(some, 11 * kCells) << "a clear effect stops early";
}

} // namespace looks_test
} // namespace assay
