// Ending a run early, what it leaves, and measuring again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "experiments/engine/runner.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace {

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

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
