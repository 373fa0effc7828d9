// Ending a run early, what it leaves, and measuring again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "experiments/analysis/report.h"
#include "experiments/engine/runner.h"
#include "experiments/evidence/owed/redo.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace redo_test {

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

// The end of a launch of gates is waited for, but no round is.
TEST_F(RunnerTest, ASignalAtTheEndOfALaunchWithoutRoundsSpeaksOfNone) {
  RunOptions options = fake_options();
  options.acknowledge_in_round = "after this round\n";
  options.acknowledge = "at once\n";
  testing::internal::CaptureStderr();
  const RunSummary summary = run("finish_signal=1;finish_ms=300", options);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "at once\n");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  const std::vector<LaunchRow> kept = ledger().launches;
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].kind, LaunchKind::Parity);
  EXPECT_EQ(kept[0].state, LaunchState::Complete);
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

// The plan has four timed launches; the fifth request is the first repetition.
constexpr const char* kInRepetition = "steal_in=5";

// A repetition in a noisy moment would replace a measurement that nothing disturbed.
TEST_F(RunnerTest, ADisturbedRepetitionReplacesNoLaunchThatCounts) {
  run();
  RunOptions options = fake_options();
  options.redo = {"guard"};
  EXPECT_EQ(run(kInRepetition, options).outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "guard");
  ASSERT_EQ(timed.size(), 4U);
  const LedgerData data = ledger();
  EXPECT_EQ(timed[2].state, LaunchState::Failed);
  EXPECT_EQ(timed[2].repeats, timed[0].id);
  EXPECT_TRUE(data.set_aside(timed[2].id));
  EXPECT_FALSE(data.superseded(timed[0].id));
  EXPECT_TRUE(data.superseded(timed[1].id)); // its repetition was not disturbed
  EXPECT_TRUE(redo_progress(data).empty());  // the request is closed
  EXPECT_TRUE(plan_progress(data).complete());
  const Report report = judge_results(data);
  EXPECT_EQ(report.cells[1].counted_launches, 2);
  EXPECT_EQ(report.cells[1].launches_set_aside, 1);
  EXPECT_EQ(report.cells[1].superseded_launches, 1);
  EXPECT_EQ(report.launches[report.launches.size() - 2].state(), "set aside");

  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete); // asked anew: it is tried
  EXPECT_TRUE(ledger().superseded(timed[0].id));
}

// The request goes on where it was stopped: the launch that was tried in vain is not tried again.
TEST_F(RunnerTest, AStoppedRequestDoesNotTryAgainWhatWasSetAside) {
  run();
  RunOptions options = fake_options();
  options.redo = {"guard"};
  options.progress = stop_in_second;
  EXPECT_EQ(run(kInRepetition, options).outcome, RunSummary::Outcome::Incomplete);
  const auto progress = redo_progress(ledger());
  ASSERT_EQ(progress.size(), 1U);
  EXPECT_EQ(progress.begin()->second.asked, 2);
  EXPECT_EQ(progress.begin()->second.done, 0);
  EXPECT_EQ(progress.begin()->second.set_aside, 1);
  options.progress = {};
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "guard");
  EXPECT_EQ(attempts_of(timed, 1), 2);
  EXPECT_FALSE(ledger().superseded(timed[0].id));
  EXPECT_TRUE(ledger().superseded(timed[1].id));
}

// A disturbed launch is no better than a disturbed repetition; the later one counts, as always.
TEST_F(RunnerTest, ADisturbedRepetitionReplacesADisturbedLaunch) {
  run("steal_in=1");
  RunOptions options = fake_options();
  options.redo = {"disturbed"};
  options.cells = {"ema"};
  EXPECT_EQ(run(kInRepetition, options).outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3U);
  EXPECT_EQ(disturbed_rounds(ledger()).size(), 4U);
  EXPECT_TRUE(ledger().superseded(timed[0].id));
  EXPECT_FALSE(ledger().set_aside(timed[2].id));
}

// A launch with 2 disturbed rounds of 6 is worth more than a repetition with 6 of 6.
TEST_F(RunnerTest, AMoreDisturbedRepetitionReplacesNoDisturbedLaunch) {
  run("steal_in=1;steal_every=3");
  RunOptions options = fake_options();
  options.redo = {"disturbed"};
  options.cells = {"ema"};
  const RunSummary summary = run(kInRepetition, options);
  EXPECT_THAT(summary.disturbed, testing::IsEmpty());
  EXPECT_THAT(summary.set_aside, testing::ElementsAre("ema, timed launch 1: 6 of 6 rounds"));
  EXPECT_THAT(summary.try_again, testing::ElementsAre("disturbed"));
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3U);
  EXPECT_FALSE(ledger().superseded(timed[0].id));
  EXPECT_TRUE(ledger().set_aside(timed[2].id));
  EXPECT_EQ(disturbed_rounds(ledger()).front().disturbed, 2);
  EXPECT_EQ(disturbed_rounds(ledger()).front().rounds, 6);
}

// A person could otherwise choose a measurement by the moment of stopping.
TEST_F(RunnerTest, ARepetitionThatEndedEarlyReplacesNothing) {
  run();
  RunOptions options = fake_options();
  options.redo = {"guard"};
  options.progress = [](const RunProgress& progress) {
    if (progress.round == 4) ::raise(SIGTERM); // of 6: a first attempt would be partial
  };
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Incomplete);
  const auto timed = launches(LaunchKind::Timed, "guard");
  ASSERT_EQ(timed.size(), 3U);
  EXPECT_EQ(timed[2].state, LaunchState::Failed);
  EXPECT_FALSE(ledger().superseded(timed[0].id));
  EXPECT_EQ(redo_progress(ledger()).begin()->second.asked, 2);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  EXPECT_TRUE(ledger().superseded(timed[0].id));
}

// The launch counts, but what was asked for was not done; the next run tries it again.
TEST_F(RunnerTest, ARepetitionThatIsGivenUpLeavesTheRunIncomplete) {
  run();
  RunOptions options = fake_options();
  options.redo = {"guard"};
  const RunSummary summary = run("die=timed/*/2", options);
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(summary.progress.failed, 2);
  const PlanProgress progress = plan_progress(ledger());
  EXPECT_FALSE(progress.complete());
  ASSERT_EQ(progress.owed.size(), 1U);
  EXPECT_EQ(owed_text(progress.owed[0]),
            "2 of 2 timed launches (2 to be measured again, 2 failed)");
  EXPECT_THAT(progress.problems,
              testing::Contains(testing::HasSubstr("could not be measured again: ")));
  const Report report = judge_results(ledger());
  EXPECT_FALSE(report.complete());
  EXPECT_EQ(report.cells[1].counted_launches, 2);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(judge_results(ledger()).cells[1].superseded_launches, 2);
}

TEST_F(RunnerTest, ARedoOfACellThatIsNotChosenIsRefusedBeforeItIsAskedFor) {
  run();
  RunOptions options = fake_options();
  options.redo = {"ema"};
  options.cells = {"guard"};
  EXPECT_THAT(failure_of([&] { run("", options); }),
              test::names("--redo ema", "give --cell ema too"));
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

} // namespace redo_test
} // namespace assay
