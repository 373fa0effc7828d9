// Waiting for a quiet machine: by covariates alone, interruptible, recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <memory>
#include <thread>

#include "experiments/engine/quiet_wait.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace quiet_wait_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace test;

Covariates with_steal(double share) {
  Covariates covariates;
  covariates.steal_share = share;
  return covariates;
}

// The steal of sample after sample; the last one for ever.
QuietWait machine(std::vector<double> steal, double limit_seconds = 60) {
  auto next = std::make_shared<std::size_t>(0);
  QuietWait wait;
  wait.limit_seconds = limit_seconds;
  wait.pause_seconds = 0;
  wait.sample = [next, steal] { return with_steal(steal[std::min((*next)++, steal.size() - 1)]); };
  return wait;
}

QuietResult wait(const QuietWait& options, int* waits = nullptr) {
  return wait_for_quiet(
      options,
      {},
      [] { return false; },
      [waits](const std::string&, double) {
        if (waits != nullptr) ++*waits;
      });
}

TEST(QuietWait, AQuietMachineIsNotWaitedFor) {
  const QuietResult result = wait(machine({0.01}));
  EXPECT_TRUE(result.quiet);
  EXPECT_EQ(result.detail(), "");
}

// One quiet sample between two busy ones is no quiet machine.
TEST(QuietWait, QuietIsSeveralSamplesInARow) {
  int waits = 0;
  const QuietResult result = wait(machine({0.12, 0.01, 0.01, 0.2, 0.01, 0.3, 0.01}), &waits);
  EXPECT_TRUE(result.quiet);
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(result.first, "steal 12 %");
  EXPECT_THAT(result.detail(), test::names("was quiet", "steal 30 %"));
}

TEST(QuietWait, TheLimitEndsIt) {
  const QuietResult result = wait(machine({0.5}, 0.05));
  EXPECT_FALSE(result.quiet);
  EXPECT_GT(result.seconds, 0.04);
  EXPECT_THAT(result.detail(), test::names("not become quiet", "steal 50 %"));
}

// A sample takes its time too: none begins that would end after the limit.
TEST(QuietWait, LastsNoLongerThanAsked) {
  for (const double pause : {0.0, 10.0}) {
    QuietWait options;
    int samples = 0;
    options.limit_seconds = 0.25;
    options.pause_seconds = pause;
    options.sample = [&samples] {
      ++samples;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return with_steal(0.5);
    };
    EXPECT_FALSE(wait(options).quiet);
    EXPECT_LE(samples, 2) << pause; // a third one would end after 0.3 s
  }
}

// A limit below the time of three samples leaves room for fewer.
TEST(QuietWait, AShortWaitOnAQuietMachineFindsItQuiet) {
  QuietWait options = machine({0.01}, 0.05);
  options.sample = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return with_steal(0.01);
  };
  const QuietResult result = wait(options);
  EXPECT_TRUE(result.quiet);
  EXPECT_EQ(result.detail(), "");
}

TEST(QuietWait, ThePlansLimitsCount) {
  DisturbanceLimits limits;
  limits.steal = 0.6;
  const QuietResult result = wait_for_quiet(
      machine({0.5}), limits, [] { return false; }, [](const std::string&, double) {});
  EXPECT_TRUE(result.quiet);
}

std::vector<std::string> waited(const LedgerData& data) {
  std::vector<std::string> details;
  for (const EventRow& event : data.events)
    if (event.kind == "waited") details.push_back(event.detail);
  return details;
}

TEST_F(RunnerTest, ARunWaitsOnceAndRecordsIt) {
  RunOptions options = fake_options();
  options.quiet = machine({0.12, 0.01});
  std::vector<std::string> shown;
  options.progress = [&](const RunProgress& progress) {
    if (progress.waiting) shown.push_back(progress.waiting->cause);
  };
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(shown, ElementsAre("steal 12 %"));
  const LedgerData data = ledger();
  ASSERT_THAT(waited(data), SizeIs(1));
  EXPECT_EQ(data.events.front().launch, data.launches.front().id);
}

TEST_F(RunnerTest, ARunWaitsAgainAfterADisturbedLaunch) {
  RunOptions options = fake_options();
  int samples = 0;
  options.quiet = machine({0.01});
  options.quiet->sample = [&samples] {
    ++samples;
    return with_steal(0.01);
  };
  run("steal_in=1", options); // the first timed launch is disturbed
  EXPECT_EQ(samples, 2 * kQuietSamples);
  EXPECT_THAT(waited(ledger()), IsEmpty());
}

TEST_F(RunnerTest, AfterTheLimitTheRunGoesOnAndSaysSo) {
  RunOptions options = fake_options();
  options.quiet = machine({0.5}, 0.01);
  std::vector<std::string> notes;
  options.progress = [&](const RunProgress& progress) {
    if (!progress.note.empty()) notes.push_back(progress.note);
  };
  EXPECT_EQ(run("", options).outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(notes, ElementsAre(test::names("not become quiet", "steal 50 %")));
}

TEST_F(RunnerTest, ASignalEndsTheWait) {
  RunOptions options = fake_options();
  options.quiet = machine({0.5}, 600);
  options.quiet->pause_seconds = 600;
  options.progress = [](const RunProgress& progress) {
    if (progress.waiting) ::raise(SIGTERM);
  };
  const auto start = std::chrono::steady_clock::now();
  const RunSummary summary = run("", options);
  EXPECT_EQ(summary.stopped, "interrupted");
  EXPECT_THAT(ledger().launches, IsEmpty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

} // namespace quiet_wait_test
} // namespace assay
