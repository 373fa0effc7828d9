// Cells whose variants take turns, each in a process of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "experiments/analysis/report.h"
#include "experiments/engine/schedule.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace turns_test {

using namespace test;
using testing::Contains;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TurnsTest : public RunnerTest {
protected:
  // The fake worker reads its behaviour from a variable, which is each process's own.
  void plan(const std::string& candidate, const std::string& baseline = "") {
    plan_ = small_plan(scratch_,
                       "version = 1\n[experiment]\nname = \"t\"\nlaunches = 3\n[base]\n"
                       "preset = \"tiny\"\n[[cell]]\nname = \"own\"\nrounds = 6\n[cell.variants]\n"
                       "a = {" +
                           baseline + "}\nb = { " + candidate + " }\n");
  }
  // A program of another build.
  std::string other_worker(const std::string& build) {
    const std::string path = scratch_ / "other-worker";
    std::ofstream(path) << "#!/bin/sh\nASSAY_FAKE=\"$ASSAY_FAKE;build=" << build << "\" exec '"
                        << fake_worker() << "' \"$@\"\n";
    fs::permissions(path, fs::perms::owner_all);
    return path;
  }
};

TEST_F(TurnsTest, EveryVariantHasAProcessWithItsEnvironment) {
  plan("env = { ASSAY_FAKE = \"effect=0.9\" }");
  EXPECT_TRUE(plan_.ledger.cells[0].turns);
  EXPECT_THAT(note_texts(plan_), Contains(HasSubstr("a process of its own")));
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  EXPECT_EQ(data.variants[1].environment, "ASSAY_FAKE=effect=0.9\n");
  const Schedule schedule{data.spec.hash, data.spec.seed};
  for (const LaunchRow& launch : data.launches) {
    for (const VariantRow& variant : data.variants) {
      const bool takes_part = variant.role != Role::Control || launch.kind == LaunchKind::Timed ||
                              launch.kind == LaunchKind::Memory;
      const std::string log = fmt::format("r/logs/launch-{}.{}.log", launch.id, variant.id);
      EXPECT_EQ(fs::exists(scratch_ / log), takes_part) << log;
    }
    if (launch.kind != LaunchKind::Timed) continue;
    for (const auto& [round, visits] : rounds_of(data, launch.id)) {
      ASSERT_EQ(visits.size(), 3u);
      const auto order = schedule.order("own", launch.index, launch.attempt, round, 3);
      for (const VisitRow* visit : visits)
        EXPECT_EQ(visit->variant,
                  data.variants[order[static_cast<std::size_t>(visit->position)]].id);
    }
  }
  EXPECT_EQ(data.gates.size(), 1u); // of b, which was looked at alone
  const Report report = judge_results(data);
  EXPECT_NEAR(report.cells[0].comparisons[0].effect->theta.value, std::log(0.9), 1e-9);
}

TEST_F(TurnsTest, AVariantsOwnBuildIsRecordedAndStaysTheSame) {
  const std::string worker = "worker = \"" + other_worker("old-7") + "\"";
  plan("", worker); // also the baseline may have one; the launch's identity is then b's
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  int recorded = 0;
  for (const MetricRow& metric : data.metrics) {
    if (metric.path != kWorkerBuildMetric) continue;
    EXPECT_EQ(metric.detail, "old-7");
    EXPECT_NE(metric.variant, 2); // b runs this build
    ++recorded;
  }
  EXPECT_EQ(recorded, 1 + 2 + 3 * 2 + 1); // parity and trace without the control, memory, timed
  for (const LaunchRow& launch : data.launches) EXPECT_EQ(launch.identity.build, "fake-1");
  other_worker("old-8");
  RunOptions again = fake_options();
  again.redo = {"own"};
  try {
    run("", again);
    ADD_FAILURE() << "another build of a variant was taken";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.kind(), Failure::Kind::BadInput);
    EXPECT_THAT(failure.what(), test::names("other-worker", "old-8", "old-7"));
  }
}

TEST_F(TurnsTest, AProcessThatDiesEndsTheLaunchWithItsLog) {
  plan("env = { ASSAY_FAKE = \"die=timed/*/3;count=" + (scratch_ / "own") + "\" }");
  const RunSummary summary = run();
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  for (const LaunchRow& launch : launches(LaunchKind::Timed, "own")) {
    EXPECT_EQ(launch.state, LaunchState::Failed);
    EXPECT_THAT(launch.reason, HasSubstr("about to die"));
  }
}

// Whether the process of another variant is retired, its own name is told.
TEST_F(TurnsTest, ARetiredVariantIsNamed) {
  plan("env = { ASSAY_FAKE = \"retire=b/2\" }");
  (void)run();
  EXPECT_THAT(launches(LaunchKind::Timed, "own")[0].reason, HasSubstr("variant 'b' was retired"));
}

TEST_F(TurnsTest, AnOptimizationTakesTurnsOnRequestAndItsGatesDoNot) {
  plan_ = small_plan(scratch_, std::string(kSmallMatrix) + "[measure]\ninterleave = \"turns\"\n");
  EXPECT_TRUE(plan_.ledger.cells[0].turns);
  EXPECT_EQ(run("effect=0.9").outcome, RunSummary::Outcome::Complete);
  for (const LaunchRow& launch : ledger().launches)
    EXPECT_EQ(fs::exists(scratch_ / fmt::format("r/logs/launch-{}.log", launch.id)),
              launch.kind == LaunchKind::Parity);
}

// One process after the other: a launch has as many at a time as the log of their lives shows.
TEST_F(TurnsTest, InLaunchesAProcessEndsBeforeTheNextBegins) {
  plan_ = small_plan(scratch_,
                     "version = 1\n[experiment]\nname = \"t\"\nlaunches = 3\n[measure]\n"
                     "interleave = \"launches\"\n[energy]\nrounds = 2\n[base]\npreset = \"tiny\"\n"
                     "[[cell]]\nname = \"own\"\nrounds = 6\n[cell.variants]\na = {}\n"
                     "b = { env = { ASSAY_FAKE = \"effect=0.9;watts=300;lives=" +
                         (scratch_ / "lives") + "\" } }\n");
  EXPECT_TRUE(plan_.ledger.cells[0].turns && plan_.ledger.cells[0].apart);
  EXPECT_THAT(note_texts(plan_), Contains(HasSubstr("one process after the other")));
  EXPECT_EQ(run("watts=300;lives=" + (scratch_ / "lives")).outcome, RunSummary::Outcome::Complete);
  std::ifstream lives(scratch_ / "lives");
  int alive = 0, most = 0;
  for (std::string word; lives >> word;) most = std::max(most, alive += word == "begin" ? 1 : -1);
  EXPECT_EQ(most, 1);
  const LedgerData data = ledger();
  EXPECT_TRUE(data.cells[0].apart);
  const Schedule schedule{data.spec.hash, data.spec.seed};
  for (const LaunchRow& launch : data.launches) {
    if (launch.kind != LaunchKind::Timed) continue;
    const auto rounds = rounds_of(data, launch.id);
    ASSERT_EQ(rounds.size(), 16u); // 10 of warm-up
    const auto order = schedule.order("own", launch.index, launch.attempt, 0, 3);
    for (const auto& [round, visits] : rounds) {
      ASSERT_EQ(visits.size(), 3u);
      for (const VisitRow* visit : visits) {
        EXPECT_EQ(visit->variant,
                  data.variants[order[static_cast<std::size_t>(visit->position)]].id);
        EXPECT_EQ(visit->warmup, round < 10);
      }
    }
  }
  const Report report = judge_results(data);
  ASSERT_TRUE(report.cells[0].comparisons[0].effect);
  EXPECT_NEAR(report.cells[0].comparisons[0].effect->theta.value, std::log(0.9), 0.002);
  EXPECT_TRUE(report.cells[0].comparisons[0].energy);
}

// What is stored is whole: a launch that is stopped leaves no round.
TEST_F(TurnsTest, AProcessThatFailsInLaunchesLeavesNoRounds) {
  plan_ = small_plan(scratch_,
                     "version = 1\n[experiment]\nname = \"t\"\nlaunches = 1\n[measure]\n"
                     "interleave = \"launches\"\n[base]\npreset = \"tiny\"\n[[cell]]\n"
                     "name = \"own\"\nrounds = 6\n[cell.variants]\na = {}\n"
                     "b = { env = { ASSAY_FAKE = \"die=timed/*/15\" } }\n");
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Incomplete);
  for (const LaunchRow& launch : ledger().launches)
    if (launch.kind == LaunchKind::Timed) {
      EXPECT_EQ(launch.state, LaunchState::Failed);
      EXPECT_THAT(launch.reason, HasSubstr("variant 'b'"));
      EXPECT_TRUE(rounds_of(ledger(), launch.id).empty());
    }
}

} // namespace turns_test
} // namespace assay
