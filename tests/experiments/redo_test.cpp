// Ending a run early, what it leaves, and measuring again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "experiments/engine/runner.h"
#include "experiments/evidence/redo.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace {

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

// The fake worker's steal of 1 % is beyond the limit: every launch is disturbed.
std::string disturbed_matrix() {
  return std::string(kSmallMatrix)
      .insert(std::string(kSmallMatrix).find("[trace]"), "[limits]\nsteal = 0.001\n");
}

// Nothing that counts would be lost, so nobody waits for a worker that builds.
TEST_F(RunnerTest, ASignalEndsALaunchThatIsBeingBuiltAtOnce) {
  RunOptions options = fake_options();
  options.setup_timeout_seconds = 60;
  const auto start = std::chrono::steady_clock::now();
  std::thread person([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    ::kill(::getpid(), SIGTERM);
  });
  options.acknowledge_in_round = "after this round\n";
  options.acknowledge = "at once\n";
  testing::internal::CaptureStderr();
  const RunSummary summary = run("hang=parity/1/launch", options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "at once\n"); // no round is finished
  person.join();
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(RunnerTest, UnfinishedTracesOfKilledLaunchesAreRemoved) {
  fs::create_directories(scratch_ / "r/traces");
  scratch_.write("r/traces/3.0.a.sqlite.part", "x");
  scratch_.write("r/traces/3.0.a.sqlite", "kept");
  run();
  EXPECT_FALSE(fs::exists(scratch_ / "r/traces/3.0.a.sqlite.part"));
  EXPECT_TRUE(fs::exists(scratch_ / "r/traces/3.0.a.sqlite"));
}

// By covariates alone: the second launch is as slow, and is left alone.
TEST_F(RunnerTest, DisturbedLaunchesAreMeasuredAgainOnRequest) {
  const RunSummary first = run("steal_in=1");
  EXPECT_THAT(first.disturbed, testing::ElementsAre("ema, timed launch 1: 6 of 6 rounds"));
  EXPECT_EQ(run().progress.missing, 0);
  RunOptions options = fake_options();
  options.redo = {"disturbed"};
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3u);
  EXPECT_EQ(timed[2].index, 1);
  EXPECT_EQ(timed[2].attempt, 1);
  EXPECT_EQ(timed[2].repeats, timed[0].id);
  EXPECT_EQ(timed[0].state, LaunchState::Complete); // it stays
  EXPECT_TRUE(ledger().superseded(timed[0].id));
  EXPECT_FALSE(ledger().superseded(timed[1].id));
  run("", options);
  EXPECT_EQ(launches(LaunchKind::Timed, "ema").size(), 3u); // none is disturbed any more
}

TEST_F(RunnerTest, ARedoOfNothingMeasuresNothing) {
  RunOptions redo = fake_options();
  redo.redo = {"disturbed"};
  EXPECT_THROW(run("", redo), Failure) << "there are no results yet";
  EXPECT_FALSE(fs::exists(scratch_ / "r"));
  RunOptions part = fake_options();
  part.cells = {"ema"};
  run("", part);
  const std::size_t measured = ledger().launches.size();
  const RunSummary summary = run("", redo);
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(summary.stopped, "no launch to measure again");
  EXPECT_EQ(ledger().launches.size(), measured);
}

int attempts_of(const std::vector<LaunchRow>& launches, int index) {
  return static_cast<int>(
      std::count_if(launches.begin(), launches.end(), [index](const LaunchRow& launch) {
        return launch.index == index;
      }));
}

// Stopped in the first half of the second timed launch of each cell.
void stop_in_second(const RunProgress& progress) {
  if (progress.task.kind == LaunchKind::Timed && progress.task.index == 2 && progress.round == 2)
    ::raise(SIGTERM);
}

// Else the first launches are measured again for ever, and the last ones never.
TEST_F(RunnerTest, TheSameRedoCommandGoesOnWithItsRound) {
  run();
  for (const std::vector<std::string>& what :
       {std::vector<std::string>{"guard"}, std::vector<std::string>{"guard", "disturbed"}}) {
    const auto before = launches(LaunchKind::Timed, "guard");
    const int first = attempts_of(before, 1), second = attempts_of(before, 2);
    RunOptions options = fake_options();
    options.redo = what;
    options.progress = stop_in_second;
    for (int stop = 0; stop < 2; ++stop) {
      EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Incomplete);
      const auto progress = redo_progress(ledger());
      ASSERT_EQ(progress.size(), 1U);
      EXPECT_EQ(progress.begin()->second.asked, 2);
      EXPECT_EQ(progress.begin()->second.done, 1);
    }
    options.progress = {};
    EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
    const auto after = launches(LaunchKind::Timed, "guard");
    EXPECT_EQ(attempts_of(after, 1), first + 1);
    EXPECT_EQ(attempts_of(after, 2), second + 3); // two of them were stopped
    EXPECT_TRUE(redo_progress(ledger()).empty());
  }
}

// A launch that its repetition leaves disturbed waits for the end of the round too.
TEST_F(RunnerTest, ARoundOfDisturbedLaunchesGoesOn) {
  plan_ = small_plan(scratch_, disturbed_matrix());
  run();
  RunOptions options = fake_options();
  options.redo = {"disturbed"};
  options.cells = {"guard"};
  options.progress = stop_in_second;
  run("", options);
  EXPECT_EQ(attempts_of(launches(LaunchKind::Timed, "guard"), 1), 2);
  EXPECT_EQ(attempts_of(launches(LaunchKind::Timed, "ema"), 1), 1); // not chosen
  options.progress = {};
  run("", options);
  EXPECT_EQ(attempts_of(launches(LaunchKind::Timed, "guard"), 1), 2);
  EXPECT_EQ(attempts_of(launches(LaunchKind::Timed, "guard"), 2), 3);
  EXPECT_EQ(attempts_of(launches(LaunchKind::Timed, "ema"), 1), 1);
}

TEST_F(RunnerTest, ARedoOfACellThatIsNotChosenIsRefusedBeforeItIsAskedFor) {
  run();
  RunOptions options = fake_options();
  options.redo = {"ema"};
  options.cells = {"guard"};
  EXPECT_THAT(failure_of([&] { run("", options); }), test::names("--redo ema", "--cell guard"));
  EXPECT_TRUE(redo_progress(ledger()).empty());
  EXPECT_TRUE(plan_progress(ledger()).complete());
  options.redo = {"disturbed"};
  const std::size_t measured = ledger().launches.size();
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete); // none is
  EXPECT_EQ(ledger().launches.size(), measured);
}

TEST_F(RunnerTest, ARedoThatWasInterruptedGoesOnByItself) {
  run();
  RunOptions options = fake_options();
  options.redo = {"guard"};
  options.progress = [](const RunProgress& progress) {
    if (progress.round == 2) ::raise(SIGTERM);
  };
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  const auto timed = launches(LaunchKind::Timed, "guard");
  EXPECT_EQ(std::count_if(timed.begin(),
                          timed.end(),
                          [&](const LaunchRow& launch) { return data.superseded(launch.id); }),
            2);
  options.redo = {"nope"};
  EXPECT_THAT(failure_of([&] { run("", options); }),
              test::names("--redo nope:", "ema, guard;", "`disturbed`"));
}

} // namespace
} // namespace assay
