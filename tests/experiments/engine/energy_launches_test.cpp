// Energy launches through the engine, with the fake worker, whose visits draw a constant power.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/analysis/report.h"
#include "experiments/report/section.h"
#include "tests/experiments/support.h"

namespace assay::test {
namespace energy_launches_test {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kMatrix = R"(
version = 1
[experiment]
name = "energy"
launches = 2
[trace]
rounds = 0
[energy]
rounds = 3
[base]
preset = "tiny"
[[cell]]
name = "attention"
optimization = "varlen"
levels = ["varlen"]
rounds = 3
)";

class EnergyLaunches : public testing::Test {
protected:
  RunSummary run(const std::string& behaviour) {
    const FakeBehaviour fake(behaviour);
    return run_plan(plan_, scratch_ / "r", fake_options());
  }
  LedgerData ledger() const { return value_or_throw(read_ledger(scratch_ / "r")); }
  Scratch scratch_;
  Plan plan_ = small_plan(scratch_, kMatrix);
};

TEST_F(EnergyLaunches, ComeLastWithVisitsOfFiveSeconds) {
  EXPECT_EQ(run("watts=400;effect=0.9").outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  ASSERT_EQ(data.launches.back().kind, LaunchKind::Energy);
  int warm = 0, counted = 0;
  for (const VisitRow& visit : data.visits) {
    if (visit.launch != data.launches.back().id) continue;
    ++(visit.warmup ? warm : counted);
    EXPECT_GE(static_cast<double>(visit.wall_ns), 0.99e9 * kEnergySeconds); // the fastest variant's
    EXPECT_LE(static_cast<double>(visit.wall_ns), 1.2e9 * kEnergySeconds);
  }
  EXPECT_EQ(warm, 3); // one round of baseline, level and control
  EXPECT_EQ(counted, 9);
}

TEST_F(EnergyLaunches, GiveTheJoulesOfAStepPairedByRound) {
  run("watts=400;effect=0.9");
  const Report report = judge_results(ledger());
  const Comparison& comparison = report.cells.at(0).comparisons.at(0);
  ASSERT_TRUE(comparison.energy);
  EXPECT_NEAR(comparison.energy->log_ratio.value, std::log(0.9), 0.003); // watts are equal
  EXPECT_NEAR(comparison.energy->a_j, 0.4, 0.002);                       // 400 W, 1 ms
  EXPECT_EQ(comparison.energy->log_ratio.by_launch.size(), 3u);
  EXPECT_GE(comparison.energy->seconds, 0.99 * kEnergySeconds);
}

TEST_F(EnergyLaunches, EndAtOnceAndCompleteWhereNothingCanBeRead) {
  EXPECT_EQ(run("").outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  EXPECT_EQ(data.launches.back().state, LaunchState::Complete);
  EXPECT_EQ(std::count_if(data.visits.begin(),
                          data.visits.end(),
                          [&](const VisitRow& v) { return v.launch == data.launches.back().id; }),
            3);
  EXPECT_EQ(data.events.back().kind, "no_energy");
  const Report report = judge_results(data);
  EXPECT_FALSE(report.cells.at(0).comparisons.at(0).energy);
  EXPECT_THAT(report.cells.at(0).no_energy, HasSubstr("neither the driver nor the kernel"));
}

} // namespace energy_launches_test
} // namespace assay::test
