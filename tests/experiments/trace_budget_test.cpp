// The disk budget of traces: estimated by the plan, kept by the engine, visible afterwards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ledger/untraced.h"
#include "experiments/analysis/report.h"
#include "experiments/plan/trace_size.h"
#include "tests/experiments/runner_fixture.h"

namespace assay {
namespace trace_budget_test {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace test;

TEST_F(RunnerTest, ACellBeyondTheDiskBudgetIsNotTraced) {
  const double one = estimated_trace_bytes(plan_.ledger, plan_.ledger.cells[0]);
  ASSERT_GT(one, 0);
  plan_.trace_budget_bytes = one * 1.01; // the first cell fits; the fake writes no traces
  std::filesystem::create_directories(scratch_ / "r/traces");
  scratch_.write("r/traces/99.0.a.sqlite", std::string(static_cast<std::size_t>(0.02 * one), 'x'));
  const RunSummary summary = run();
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(summary.progress.problems, Contains(HasSubstr("ema: no trace")));
  EXPECT_THAT(launches(LaunchKind::Traced, "ema"), IsEmpty());
  EXPECT_THAT(left_untraced(ledger(), plan_.ledger.cells[0].id), HasSubstr("max_gib"));
  const Report report = judge_results(ledger());
  EXPECT_TRUE(report.complete());
  EXPECT_THAT(report.alarms, Contains(Field(&Alarm::code, AlarmCode::Untraced)));
}

TEST_F(RunnerTest, TheBudgetIsNoPartOfThePlan) {
  std::string matrix = kSmallMatrix;
  matrix.insert(matrix.find("rounds = 3"), "max_gib = 0.5\n");
  const Plan limited = small_plan(scratch_, matrix);
  EXPECT_EQ(limited.trace_budget_bytes, 0.5 * 1024 * 1024 * 1024);
  EXPECT_EQ(limited.ledger.spec.hash, plan_.ledger.spec.hash);
}

TEST_F(RunnerTest, ALargerBudgetRecordsWhatWasLeftOut) {
  plan_.trace_budget_bytes = 1;
  run();
  EXPECT_THAT(launches(LaunchKind::Traced, "ema"), IsEmpty());
  EXPECT_THAT(launches(LaunchKind::Traced, "guard"), IsEmpty());
  plan_.trace_budget_bytes = 1e12;
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(launches(LaunchKind::Traced, "ema"), SizeIs(1));
  EXPECT_EQ(left_untraced(ledger(), plan_.ledger.cells[0].id), "");
  EXPECT_THAT(judge_results(ledger()).alarms,
              testing::Not(Contains(Field(&Alarm::code, AlarmCode::Untraced))));
}

TEST_F(RunnerTest, WithoutABudgetEveryCellIsTraced) {
  run();
  EXPECT_THAT(launches(LaunchKind::Traced, "ema"), SizeIs(1));
  EXPECT_THAT(launches(LaunchKind::Traced, "guard"), SizeIs(1));
}

} // namespace trace_budget_test
} // namespace assay
