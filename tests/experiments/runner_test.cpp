#include "experiments/engine/probe.h"
#include "experiments/engine/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <set>

#include "experiments/engine/data_fingerprint.h"
#include "experiments/engine/schedule.h"
#include "tests/experiments/runner_fixture.h"
#include "tests/names.h"

namespace assay {
namespace runner_test {

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

constexpr int kLaunches = 10; // 2 cells x (parity, memory, 2 timed, traced)

TEST_F(RunnerTest, RunsTheWholePlan) {
  const RunSummary summary = run("effect=0.9");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(summary.progress.done, kLaunches);
  const LedgerData data = ledger();
  ASSERT_EQ(data.launches.size(), static_cast<std::size_t>(kLaunches));
  const Schedule schedule{data.spec.hash, data.spec.seed};
  for (const LaunchRow& launch : data.launches) {
    EXPECT_EQ(launch.state, LaunchState::Complete);
    EXPECT_EQ(launch.identity.build, "fake-1");
    EXPECT_FALSE(launch.ended_utc.empty());
    const bool traced = launch.kind == LaunchKind::Traced;
    if (launch.kind != LaunchKind::Timed && !traced) continue;
    EXPECT_TRUE(launch.steady);
    const auto rounds = rounds_of(data, launch.id);
    ASSERT_EQ(rounds.size(), traced ? 15u : 16u); // 10 of warm-up, 6 timed or 2 + 3 traced
    for (const auto& [round, visits] : rounds) {
      auto variants = variants_of(data, launch.cell);
      if (traced) variants.pop_back(); // no control
      ASSERT_EQ(visits.size(), variants.size());
      const auto order = schedule.order(
          data.cell(launch.cell).name, launch.index, launch.attempt, round, variants.size());
      for (const VisitRow* visit : visits) {
        EXPECT_EQ(visit->warmup, round < (traced ? 12 : 10));
        EXPECT_EQ(visit->variant, variants[order[static_cast<std::size_t>(visit->position)]]->id);
        EXPECT_EQ(visit->covariates.steal_share, 0.01);
      }
    }
  }
  EXPECT_EQ(std::count_if(data.events.begin(),
                          data.events.end(),
                          [](const EventRow& e) { return e.kind == "warmup_end"; }),
            6);
  EXPECT_FALSE(fs::exists(scratch_ / "r/ledger.sqlite-wal")); // left WAL mode
}

TEST_F(RunnerTest, InterleavesCellsByLaunchIndex) {
  run();
  const LedgerData data = ledger();
  std::vector<std::string> order;
  for (const LaunchRow& l : data.launches)
    order.push_back(fmt::format("{} {} {}", to_string(l.kind), l.index, l.cell));
  EXPECT_THAT(order,
              testing::ElementsAre("parity 1 1",
                                   "parity 1 2",
                                   "memory 1 1",
                                   "memory 1 2",
                                   "timed 1 1",
                                   "timed 1 2",
                                   "timed 2 1",
                                   "timed 2 2",
                                   "traced 1 1",
                                   "traced 1 2"));
}

TEST_F(RunnerTest, EveryTimedLaunchHasDataOfItsOwn) {
  run();
  const LedgerData data = ledger();
  std::map<std::int64_t, std::set<double>> seeds; // of the variants, by launch
  for (const VisitRow& visit : data.visits) seeds[visit.launch].insert(visit.loss.value());
  for (const LaunchRow& launch : data.launches) {
    if (launch.kind != LaunchKind::Timed) continue;
    const auto config = nlohmann::json::parse(variants_of(data, launch.cell).front()->config_json);
    EXPECT_EQ(seeds[launch.id], std::set{config.at("seed").get<double>() + launch.index});
  }
}

TEST_F(RunnerTest, ACompletePlanIsNotRunAgain) {
  run();
  const std::size_t before = ledger().launches.size();
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(ledger().launches.size(), before);
}

TEST_F(RunnerTest, ChosenCellsRunAloneAndTheRestLater) {
  RunOptions options = fake_options();
  options.cells = {plan_.ledger.cells[1].name};
  const RunSummary one = run("", options);
  EXPECT_EQ(one.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(one.progress.done, kLaunches / 2);
  for (const LaunchRow& launch : ledger().launches) EXPECT_EQ(launch.cell, 2);
  EXPECT_EQ(run().progress.done, kLaunches);
  options.cells = {"no such cell"};
  EXPECT_THAT(failure_of([&] { run("", options); }), test::names("--cell no such", "ema, guard"));
}

TEST_F(RunnerTest, AFailedGateKeepsTheVariantOutOfTiming) {
  const RunSummary summary = run("fail_gate=pointer_swap");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(summary.progress.problems,
              testing::Contains(testing::AllOf(HasSubstr("ema: pointer_swap "),
                                               HasSubstr("gate bitwise/weights"))));
  const LedgerData data = ledger();
  for (const VisitRow& visit : data.visits)
    EXPECT_NE(data.variant(visit.variant).name, "pointer_swap");
  EXPECT_TRUE(std::any_of(
      data.gates.begin(), data.gates.end(), [](const GateRow& g) { return !g.passed; }));
  EXPECT_TRUE(std::any_of(data.visits.begin(), data.visits.end(), [&](const VisitRow& v) {
    return data.variant(v.variant).name == "exchange";
  }));
}

TEST_F(RunnerTest, ACellWithoutLevelsIsNotTimed) {
  const RunSummary summary = run("fail_gate=cast_if_needed");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(summary.progress.not_run, 4);
  EXPECT_THAT(summary.progress.problems, testing::Contains(HasSubstr("guard: ")));
  EXPECT_TRUE(launches(LaunchKind::Timed, "guard").empty());
  EXPECT_EQ(launches(LaunchKind::Timed, "ema").size(), 2u);
}

TEST_F(RunnerTest, ADeadWorkerIsTriedAgain) {
  EXPECT_EQ(run("die=timed/1/12").outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3u);
  EXPECT_EQ(timed[0].state, LaunchState::Failed);
  EXPECT_THAT(timed[0].reason, HasSubstr("signal 9"));
  EXPECT_THAT(timed[0].reason, HasSubstr("about to die")); // the log's end
  EXPECT_EQ(timed[1].state, LaunchState::Complete);
  EXPECT_EQ(timed[1].attempt, 1);
  EXPECT_EQ(rounds_of(ledger(), timed[0].id).size(), 12u); // what it measured stays
}

TEST_F(RunnerTest, HalfOfTheRoundsCount) {
  EXPECT_EQ(run("die=timed/1/13").outcome, RunSummary::Outcome::Complete); // 3 of 6 timed rounds
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 2u);
  EXPECT_EQ(timed[0].state, LaunchState::Partial);
}

TEST_F(RunnerTest, TwoFailuresAreGivenUpAndTheRunGoesOn) {
  const RunSummary summary = run("error=timed/*/0");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete); // nothing is left to try, yet
  EXPECT_EQ(summary.progress.failed, 4);
  const auto timed = launches(LaunchKind::Timed, "guard");
  ASSERT_EQ(timed.size(), 4u); // 2 launches x 2 attempts
  EXPECT_THAT(timed[0].reason, HasSubstr("with internal"));
  // A later run gives each another chance.
  EXPECT_EQ(run().progress.failed, 0);
  EXPECT_EQ(ledger().launches.back().state, LaunchState::Complete);
}

TEST_F(RunnerTest, FailuresOfEveryKindAreRowsWithReasons) {
  for (const auto& [behaviour, reason] :
       std::map<std::string, std::string>{{"oom=timed/1/3", "ran out of memory"},
                                          {"exit=timed/1/3", "exited with status 7"},
                                          {"garbage=timed/1/3", "not a JSON object"},
                                          {"die=timed/1/launch", "killed by signal 9"},
                                          {"error=timed/1/launch", "told to fail"}}) {
    fs::remove_all(scratch_ / "r");
    fs::remove(scratch_ / "count.timed");
    EXPECT_EQ(run(behaviour).outcome, RunSummary::Outcome::Complete) << behaviour;
    const auto timed = launches(LaunchKind::Timed, "ema");
    ASSERT_EQ(timed.size(), 3u) << behaviour;
    EXPECT_THAT(timed[0].reason, HasSubstr(reason));
  }
}

TEST_F(RunnerTest, AHungWorkerIsKilled) {
  RunOptions options = fake_options();
  options.least_round_timeout_seconds = 0.3;
  EXPECT_EQ(run("hang=timed/1/3", options).outcome, RunSummary::Outcome::Complete);
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3u);
  EXPECT_THAT(timed[0].reason, HasSubstr("no answer"));
}

TEST_F(RunnerTest, AFailedParityLaunchBlocksItsCellOnly) {
  const RunSummary summary = run("error=parity/*/parity");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(summary.progress.failed, 2);
  EXPECT_EQ(summary.progress.not_run, 8);
  EXPECT_THAT(summary.progress.problems, testing::Contains(HasSubstr("parity launch")));
  EXPECT_TRUE(ledger().visits.empty());
}

TEST_F(RunnerTest, ARetiredVariantLeavesAndTheLaunchRestarts) {
  const RunSummary summary = run("retire=exchange/11");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(
      summary.progress.problems,
      testing::Contains(testing::AllOf(HasSubstr("ema: exchange "), HasSubstr("nan, in "))));
  const LedgerData data = ledger();
  const auto timed = launches(LaunchKind::Timed, "ema");
  ASSERT_EQ(timed.size(), 3u);
  EXPECT_EQ(timed[0].state, LaunchState::Failed);
  EXPECT_THAT(timed[0].reason, HasSubstr("'exchange' was retired"));
  EXPECT_EQ(timed[1].index, 1);
  EXPECT_EQ(timed[1].attempt, 1);
  for (const auto& [round, visits] : rounds_of(data, timed[1].id)) EXPECT_EQ(visits.size(), 3u);
  std::set<std::string> kinds;
  for (const EventRow& event : data.events) kinds.insert(event.kind);
  EXPECT_TRUE(kinds.count("retired") && kinds.count("restarted"));
}

TEST_F(RunnerTest, ARetiredReferenceBlocksTheCell) {
  const RunSummary summary = run("retire=clone_copy/2");
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_THAT(summary.progress.problems,
              testing::Contains(testing::AllOf(HasSubstr("ema: "), HasSubstr("baseline"))));
  EXPECT_EQ(launches(LaunchKind::Timed, "guard").size(), 2u);
}

TEST_F(RunnerTest, ARetirementInTheParityLaunch) {
  EXPECT_EQ(run("retire=exchange/parity").outcome, RunSummary::Outcome::Complete);
  const LedgerData data = ledger();
  for (const VisitRow& visit : data.visits) EXPECT_NE(data.variant(visit.variant).name, "exchange");
  EXPECT_EQ(launches(LaunchKind::Parity, "ema").size(), 2u);
}

// Other cells may have data of their own.
TEST_F(RunnerTest, BadInputBesideResultsIsThatLaunchsOwn) {
  const RunSummary first = run("bad_input=timed/1/launch");
  EXPECT_EQ(first.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(first.progress.failed, 1);
  EXPECT_EQ(launches(LaunchKind::Timed, "ema").at(0).reason, "told to fail with bad_input");
  EXPECT_EQ(launches(LaunchKind::Timed, "guard").size(), 2u);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete); // the next run tries again
}

// What a cell's gates cannot do says nothing about the others.
TEST_F(RunnerTest, BadInputAfterTheBuildIsThatLaunchsOwn) {
  const RunSummary first = run("bad_input=parity/1/parity");
  EXPECT_EQ(first.outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(first.progress.failed, 1);
  ASSERT_EQ(launches(LaunchKind::Parity, "ema").size(), 1u) << "the same input is not read again";
  EXPECT_EQ(launches(LaunchKind::Timed, "guard").size(), 2u);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete); // the next run tries again
  const auto parity = launches(LaunchKind::Parity, "ema");
  ASSERT_EQ(parity.size(), 2u);
  EXPECT_EQ(parity[0].state, LaunchState::Failed);
  EXPECT_EQ(parity[0].reason, "told to fail with bad_input");
  EXPECT_EQ(parity[1].state, LaunchState::Complete);
  EXPECT_EQ(launches(LaunchKind::Timed, "guard").size(), 2u);
}

TEST_F(RunnerTest, ARefusedFirstLaunchLeavesNothingBehind) {
  EXPECT_EQ(failure_of([&] { run("bad_input=parity/1/launch"); }), "told to fail with bad_input");
  EXPECT_FALSE(fs::exists(scratch_ / "r"));
  // What is there already stays: a person's file, and results of an earlier run.
  fs::create_directory(scratch_ / "r");
  scratch_.write("r/matrix.toml", "mine");
  fs::remove(scratch_ / "count.parity");
  EXPECT_NE(failure_of([&] { run("bad_input=parity/1/launch"); }), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch_ / "r"), {}), 1);
  fs::remove(scratch_ / "count.parity");
  EXPECT_EQ(run("bad_input=parity/2/launch").outcome, RunSummary::Outcome::Incomplete);
  EXPECT_EQ(launches(LaunchKind::Parity, "ema").at(0).state, LaunchState::Complete);
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete);
}

TEST_F(RunnerTest, AnotherBuildIsRefusedAndForked) {
  RunOptions options = fake_options();
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.round == 1) ::raise(SIGTERM);
  };
  run("", options);
  const std::string message = failure_of([&] { run("build=fake-2"); });
  EXPECT_THAT(message, test::names("by build fake-1", "is build fake-2"));
  EXPECT_THAT(message, HasSubstr("--fork"));
  RunOptions fork = fake_options();
  fork.fork = true;
  const RunSummary summary = run("build=fake-2", fork);
  EXPECT_EQ(summary.outcome, RunSummary::Outcome::Complete);
  EXPECT_EQ(summary.older_results, scratch_ / "r.1");
  EXPECT_EQ(value_or_throw(read_ledger(scratch_ / "r.1")).launches.front().identity.build,
            "fake-1");
  for (const LaunchRow& launch : ledger().launches) EXPECT_EQ(launch.identity.build, "fake-2");
  EXPECT_EQ(run("build=fake-2", fork).older_results,
            ""); // the same plan and build: nothing to set aside
}

TEST_F(RunnerTest, AWorkerThatDiesAtTheBuildCheckIsAskedAgain) {
  RunOptions options = fake_options();
  options.stop_after_seconds = 0.2;
  do { // only a build that measured something is checked
    run("sleep_us=20000", options);
    *options.stop_after_seconds *= 2;
  } while (ledger().launches.empty());
  EXPECT_EQ(run("die_at_hello=" + (scratch_ / "died")).outcome, RunSummary::Outcome::Complete);
  EXPECT_TRUE(fs::exists(scratch_ / "died"));
  for (const LaunchRow& launch : ledger().launches)
    EXPECT_THAT(launch.reason, testing::Not(HasSubstr("signal 9"))); // no launch met it
}

TEST_F(RunnerTest, OtherDataBehindTheSamePathIsRefusedAndForked) {
  RunOptions options = fake_options();
  options.stop_after_seconds = 0.2;
  do {
    run("sleep_us=20000", options);
  } while (ledger().metrics.empty()); // on a slow machine the first one ends before its launch
  const std::size_t metrics = ledger().metrics.size();
  const std::string message = failure_of([&] { run("data=text-2"); });
  EXPECT_THAT(message, HasSubstr(scratch_ / "corpus.txt"));
  EXPECT_THAT(message, HasSubstr("now: text-2; then: text-1"));
  EXPECT_THAT(message, HasSubstr("--fork"));
  EXPECT_EQ(ledger().launches.back().state, LaunchState::Failed);
  EXPECT_EQ(ledger().metrics.size(), metrics); // nothing was measured over the other data
  RunOptions fork = fake_options();
  fork.fork = true;
  EXPECT_EQ(run("data=text-2", fork).older_results, scratch_ / "r.1");
  for (const auto& [name, fingerprint] : data_fingerprints(ledger()))
    EXPECT_EQ(fingerprint, "text-2");
  EXPECT_EQ(run("data=text-2", fork).older_results, "");
}

TEST_F(RunnerTest, DataThatChangesBetweenTwoCellsIsRefused) {
  RunOptions options = fake_options();
  options.cells = {plan_.ledger.cells[0].name};
  run("", options);
  EXPECT_THAT(failure_of([&] { run("data=text-2"); }), HasSubstr("then: text-1"));
  EXPECT_EQ(run().outcome, RunSummary::Outcome::Complete); // the data is back
}

TEST_F(RunnerTest, AnotherPlanIsRefusedAndForked) {
  run();
  std::string other = kSmallMatrix;
  other.replace(other.find("seed = 7"), 8, "seed = 8");
  plan_ = small_plan(scratch_, other);
  const std::string message = failure_of([&] { run(); });
  EXPECT_THAT(message, HasSubstr("contains another plan"));
  EXPECT_THAT(message, HasSubstr("seed: 7 in the results, 8 now"));
  RunOptions fork = fake_options();
  fork.fork = true;
  EXPECT_EQ(run("", fork).older_results, scratch_ / "r.1");
}

TEST_F(RunnerTest, AWorkerOfAnotherProtocolIsRefused) {
  EXPECT_THAT(failure_of([&] { run("protocol=9"); }), test::names("worker", "protocol 9"));
}

TEST_F(RunnerTest, AMissingWorkerIsNamed) {
  RunOptions options = fake_options();
  options.worker_path = scratch_ / "no-worker";
  EXPECT_THAT(failure_of([&] { run("", options); }), test::names("no-worker: ", "be started"));
}

TEST_F(RunnerTest, ASecondRunnerIsRefusedByName) {
  const auto held = Ledger::open(scratch_ / "r", plan_.ledger);
  const std::string message = failure_of([&] { run(); });
  EXPECT_THAT(message, HasSubstr(fmt::format("is in use by process {} (", ::getpid())));
  EXPECT_THAT(message, test::names("wait", "stop it"));
}

TEST_F(RunnerTest, ProgressCountsUpAndEstimates) {
  std::vector<RunProgress> seen;
  RunOptions options = fake_options();
  options.progress = [&](const RunProgress& progress) { seen.push_back(progress); };
  run("", options);
  EXPECT_EQ(seen.front().launch_number, 1);
  EXPECT_EQ(seen.back().launch_number, kLaunches);
  EXPECT_EQ(seen.back().launches, kLaunches);
  EXPECT_EQ(seen.back().round, 3);
  EXPECT_EQ(seen.back().rounds, 3);
  EXPECT_EQ(seen.back().cell, "guard");
  ASSERT_TRUE(seen.back().eta_seconds);
  EXPECT_LT(*seen.back().eta_seconds, 1.0);
}

TEST_F(RunnerTest, ProbeMeasuresEveryReferenceOnce) {
  const Plan plan = small_plan(scratch_, std::string(kSmallMatrix) + R"([[cell]]
name = "guard again"
optimization = "bf16_guard"
set = { bf16_delta_inputs = true }
)");
  std::vector<std::string> probed;
  const auto note = [&](const CellRow& cell) { probed.push_back(cell.name); };
  const PlanProbes probes = probe_plan(plan, fake_options(), scratch_ / "probe", note);
  ASSERT_EQ(probes.by_cell.size(), 3u);
  EXPECT_THAT(probes.failures, testing::IsEmpty());
  for (const auto& [cell, probe] : probes.by_cell) EXPECT_DOUBLE_EQ(probe.unit_ns, 1e6) << cell;
  EXPECT_EQ(probed, (std::vector<std::string>{"ema", "guard"}));
}

} // namespace runner_test
} // namespace assay
