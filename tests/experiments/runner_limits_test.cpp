// Time limits and signals: where a run stops, and that the same command goes on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "core/sqlite/database.h"
#include "experiments/engine/runner.h"
#include "tests/experiments/runner_fixture.h"

namespace assay {
namespace runner_limits_test {

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

constexpr int kLaunches = 10; // 2 cells x (parity, memory, 2 timed, traced)

TEST_F(RunnerTest, StopAfterEndsAfterARoundAndResumes) {
  RunOptions options = fake_options();
  options.stop_after_seconds = 0.3;
  const RunSummary first = run("sleep_us=20000", options);
  EXPECT_EQ(first.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_THAT(first.stopped, HasSubstr("time limit"));
  EXPECT_GT(first.progress.missing, 0);
  // A slow machine may reach the limit between two launches, or before the first one.
  const std::vector<LaunchRow> launches = ledger().launches;
  if (!launches.empty() && launches.back().state != LaunchState::Complete) {
    EXPECT_THAT(launches.back().reason, HasSubstr("time limit"));
  }
  const RunSummary second = run();
  EXPECT_EQ(second.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(second.progress.done, kLaunches);
  EXPECT_EQ(second.progress.failed, 0);
}

// Gates can take minutes, and half of them are worth nothing.
TEST_F(RunnerTest, GatesEndAtTheLimit) {
  RunOptions options = fake_options();
  options.stop_after_seconds = 0.5;
  const RunSummary first = run("hang=parity/1/parity", options);
  EXPECT_THAT(first.stopped, HasSubstr("time limit"));
  EXPECT_EQ(ledger().launches.back().kind, LaunchKind::Parity);
  EXPECT_THAT(ledger().launches.back().reason, HasSubstr("time limit"));
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
}

TEST_F(RunnerTest, ALaunchThatTheLimitWouldCutDoesNotBegin) {
  using Clock = std::chrono::steady_clock;
  RunOptions options = fake_options();
  options.cells = {plan_.ledger.cells[0].name};
  std::map<int, double> begins; // of timed launches, seconds from the start of the run
  const auto start = Clock::now();
  options.progress = [&](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed)
      begins.emplace(progress.task.index,
                     std::chrono::duration<double>(Clock::now() - start).count());
  };
  run("sleep_us=20000", options);
  ASSERT_EQ(begins.size(), 2u);
  fs::remove_all(scratch_ / "r");
  // Enough for the first timed launch, and for half of the second.
  options.progress = {};
  options.stop_after_seconds = 1.5 * begins[2] - 0.5 * begins[1];
  const RunSummary summary = run("sleep_us=20000", options);
  EXPECT_THAT(summary.stopped, HasSubstr("next launch"));
  EXPECT_EQ(launches(LaunchKind::Timed, options.cells[0]).size(), 1u);
  EXPECT_EQ(ledger().launches.back().state, LaunchState::Complete);
}

// A traced launch that no run has seen takes as long as timed ones, by the ledger's own times.
TEST_F(RunnerTest, DurationsOfEarlierRunsCountToo) {
  RunOptions options = fake_options();
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Traced) ::raise(SIGTERM);
  };
  run("", options);
  ASSERT_EQ(launches(LaunchKind::Timed, plan_.ledger.cells[1].name).size(), 2u);
  Database(scratch_ / "r/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE launch SET started_utc = '2026-11-21T23:59:30Z', "
               "ended_utc = '2026-11-22T00:00:40Z' WHERE kind = 'timed'");
  Database(scratch_ / "r/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE launch SET state = 'failed' WHERE kind = 'timed' AND position = 2");
  options = fake_options();
  options.stop_after_seconds = 60;
  const RunSummary summary = run("", options); // the first launch begins, whatever the clock said
  EXPECT_THAT(summary.stopped, HasSubstr("next launch"));
  EXPECT_EQ(ledger().launches.back().state, LaunchState::Complete);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
}

// Eight hours of a suspended machine are in one launch. Those after it are of the usual length.
TEST_F(RunnerTest, OneLongLaunchDoesNotStopTheOthers) {
  RunOptions options = fake_options();
  options.cells = {plan_.ledger.cells[0].name};
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.task.index == 2) ::raise(SIGTERM);
  };
  run("", options);
  ASSERT_EQ(launches(LaunchKind::Timed, options.cells[0]).size(), 2u);
  Database(scratch_ / "r/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE launch SET started_utc = '2026-11-21T16:00:00Z', "
               "ended_utc = '2026-11-22T00:00:00Z' WHERE kind = 'timed'");
  options.progress = {};
  options.stop_after_seconds = 60;
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
}

TEST_F(RunnerTest, TheBudgetIsTheDefaultLimit) {
  plan_.budget_seconds = 0.2;
  EXPECT_EQ(run("sleep_us=20000").outcome, RunSummary::Outcome::Incomplete);
}

TEST_F(RunnerTest, ASignalStopsAfterTheRound) {
  RunOptions options = fake_options();
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.warmup_round == 3) ::raise(SIGTERM);
  };
  const RunSummary summary = run("", options);
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(summary.stopped, "interrupted");
  const LedgerData data = ledger();
  EXPECT_EQ(data.launches.back().state, LaunchState::Failed);
  EXPECT_EQ(rounds_of(data, data.launches.back().id).size(), 3u);
  EXPECT_EQ(data.events.back().kind, "stopped");
  EXPECT_EQ(data.launches.back().reason, "interrupted after warm-up round 3");
}

TEST_F(RunnerTest, AStoppedLaunchNamesItsRoundOfThoseThatCount) {
  RunOptions options = fake_options();
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.round == 2) ::raise(SIGTERM);
  };
  run("", options);
  EXPECT_EQ(ledger().launches.back().reason,
            fmt::format("interrupted after round 2 of {}", plan_.ledger.cells[0].rounds));
}

// The second signal comes when the worker has answered and not yet exited.
TEST_F(RunnerTest, ASecondSignalAtTheEndOfALaunchIsNotTheWorkersFault) {
  const int rounds = plan_.ledger.cells[0].rounds;
  RunOptions options = fake_options();
  std::thread second;
  options.progress = [&](const RunProgress& progress) {
    if (progress.task.kind != LaunchKind::Timed || progress.round != rounds || second.joinable())
      return;
    ::raise(SIGTERM);
    second = std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      ::kill(::getpid(), SIGTERM);
    });
  };
  const RunSummary summary = run("exit_ms=2000", options);
  second.join();
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_THAT(ledger().launches.back().reason, HasSubstr("interrupted"));
}

} // namespace runner_limits_test
} // namespace assay
