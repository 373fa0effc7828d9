// Cells whose results decide how many launches they run, over the fake worker.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ledger/looks.h"
#include "core/ledger/storage/plan_json.h"
#include "experiments/engine/runner.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace looks_test {

using namespace test;
using testing::ElementsAre;

class LooksTest : public RunnerTest {
protected:
  LooksTest() {
    CellRow& cell = plan_.ledger.cells[0];
    cell.looks = {2, 3, 4};
    cell.launches = 4;
    seal_plan(plan_.ledger);
  }
  // Judged open at its first `open` looks.
  RunSummary run_looking(int open) {
    RunOptions options = fake_options();
    options.decided = [this, open](const LedgerData& data, std::int64_t cell) {
      seen_.push_back(launches_of(data, cell));
      return static_cast<int>(seen_.size()) > open;
    };
    return run("", options);
  }
  static int launches_of(const LedgerData& data, std::int64_t cell) {
    return static_cast<int>(std::ranges::count_if(data.launches, [&](const LaunchRow& launch) {
      return launch.cell == cell && launch.kind == LaunchKind::Timed;
    }));
  }
  int timed(std::int64_t cell) const { return launches_of(ledger(), cell); }

  std::vector<int> seen_; // timed launches at each look
};

TEST_F(LooksTest, ACellStopsWhereItIsDecided) {
  const RunSummary summary = run_looking(1);
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(seen_, ElementsAre(2, 3));
  EXPECT_EQ(timed(1), 3);
  EXPECT_EQ(timed(2), 2) << "the other cell has a fixed number";
  EXPECT_TRUE(look_state(ledger(), ledger().cells[0]).decided);
  run_looking(0); // complete: nothing is measured or judged again
  EXPECT_EQ(seen_.size(), 2u);
  EXPECT_EQ(timed(1), 3);
}

TEST_F(LooksTest, AnOpenCellRunsUpToItsLastLook) {
  EXPECT_EQ(run_looking(9).outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(seen_, ElementsAre(2, 3, 4));
  EXPECT_EQ(timed(1), 4);
  EXPECT_FALSE(look_state(ledger(), ledger().cells[0]).decided);
}

TEST_F(LooksTest, ALookThatWasNotTakenIsTakenNextTime) {
  RunOptions options = fake_options();
  options.decided = [](const LedgerData&, std::int64_t) -> bool { bad_input("the disk is full"); };
  EXPECT_THAT(failure_of([&] { run("", options); }), testing::HasSubstr("disk"));
  EXPECT_EQ(timed(1), 2);
  EXPECT_EQ(run_looking(0).outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(seen_, ElementsAre(2));
  EXPECT_EQ(timed(1), 2);
}

TEST_F(LooksTest, OtherCellsDoNotLook) {
  RunOptions options = fake_options();
  options.cells = {plan_.ledger.cells[1].name};
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
  options.cells.clear();
  EXPECT_THAT(failure_of([&] { run("", options); }), test::names("nobody to judge"));
}

} // namespace looks_test
} // namespace assay
