#include "experiments/engine/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>

#include "core/ledger/directory_lock.h"
#include "core/sqlite/database.h"
#include "tests/experiments/support.h"
#include "tests/names.h"

namespace assay {
namespace merge_test {

using testing::HasSubstr;
using namespace test;
namespace fs = std::filesystem;

TEST(Merge, JoinsDifferentLaunchesAndKeepsDuplicatesOnce) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"ema"};
  CalibrationRow calibration;
  calibration.host = "a";
  options.calibrations = {calibration};
  run_plan(plan, scratch / "a", options);
  fs::copy(scratch / "a", scratch / "copy", fs::copy_options::recursive);
  Plan elsewhere = plan;
  elsewhere.ledger.spec.command = "assay run elsewhere";
  elsewhere.ledger.spec.created_utc = "2020-01-02T00:00:00Z";
  options.calibrations.front().host = "b";
  options.cells = {"guard"};
  run_plan(elsewhere, scratch / "b", options);
  const MergeSummary merged = value_or_throw(
      merge_ledgers({scratch / "a", scratch / "copy", scratch / "b"}, scratch / "all/"));
  const LedgerData a = value_or_throw(read_ledger(scratch / "a")),
                   b = value_or_throw(read_ledger(scratch / "b"));
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  const auto timed = [](const LedgerData& d) {
    return std::count_if(d.launches.begin(), d.launches.end(), [](const LaunchRow& l) {
      return l.kind == LaunchKind::Timed;
    });
  };
  EXPECT_EQ(timed(all), timed(a) + timed(b));
  EXPECT_EQ(all.visits.size(), a.visits.size() + b.visits.size());
  EXPECT_GE(merged.duplicates, static_cast<int>(a.launches.size()));
  EXPECT_EQ(merged.launches, static_cast<int>(all.launches.size()));
  // Every visit keeps its launch, samples and covariates.
  for (const VisitRow& visit : all.visits) {
    EXPECT_EQ(visit.sample_ns.size(), 1u);
    EXPECT_EQ(visit.covariates.involuntary_switches, 3);
  }
  EXPECT_EQ(plan_progress(all).missing, 0);
  ASSERT_EQ(all.calibrations.size(), 2u) << "each once";
  EXPECT_EQ(all.calibrations[0].host, "a");
  EXPECT_EQ(all.calibrations[1].host, "b");
  EXPECT_EQ(all.spec.command, plan.ledger.spec.command + "; assay run elsewhere");
  EXPECT_EQ(all.spec.created_utc, "2020-01-02T00:00:00Z") << "fixed when the first part was";
}

TEST(Merge, ReadingsFollowTheirLaunches) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  for (const auto& [cell, name] : {std::pair("ema", "a"), std::pair("guard", "b")}) {
    options.cells = {cell};
    run_plan(plan, scratch / name, options);
  }
  const LaunchRow read = value_or_throw(read_ledger(scratch / "b")).launches.back();
  {
    const auto ledger = Ledger::open(scratch / "b", plan.ledger);
    ledger->add(read.id, {{"", "Load", "HOST", "ok"}}, {{5, 0, 1.5}, {7, 0, 2.5}});
    ledger->finish();
  }
  (void)value_or_throw(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all"));
  Meters found = value_or_throw(read_meters(scratch / "all"));
  ASSERT_EQ(found.readings.size(), 1u);
  const auto& [id, readings] = *found.readings.begin();
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  const auto launch = std::find_if(all.launches.begin(),
                                   all.launches.end(),
                                   [&, id = id](const LaunchRow& l) { return l.id == id; });
  EXPECT_EQ(launch->cell, read.cell);
  EXPECT_EQ(launch->kind, read.kind);
  EXPECT_EQ(launch->index, read.index);
  ASSERT_EQ(readings.size(), 2u);
  EXPECT_EQ(found.meters.at(readings[1].meter).name, "Load");
  EXPECT_EQ(readings[1].time_ns, 7);
  EXPECT_EQ(readings[1].value, 2.5);
  // Of two copies that one which has them, whatever the order: an older build dropped them.
  fs::copy(scratch / "all", scratch / "poor", fs::copy_options::recursive);
  Database(scratch / "poor/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("DELETE FROM reading");
  for (const auto& [first, second] : {std::pair("all", "poor"), std::pair("poor", "all")}) {
    const std::string out = scratch / ("of_" + std::string(first));
    (void)value_or_throw(merge_ledgers({scratch / first, scratch / second}, out));
    EXPECT_EQ(value_or_throw(read_meters(out)).readings.size(), 1u) << first;
  }
}

// A run that was killed in a launch with enough rounds has measured it, as the next run makes it;
// every reader counts it so.
TEST(Merge, RefusesALaunchThatAKilledRunMeasuredToo) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"ema"};
  run_plan(plan, scratch / "a", options);
  run_plan(plan, scratch / "b", options);
  Database(scratch / "b/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE launch SET started_utc = '2099-01-01T00:00:00Z', state = 'running', "
               "ended_utc = '' WHERE kind = 'timed'");
  const LedgerData killed = value_or_throw(read_ledger(scratch / "b"));
  for (const LaunchRow& launch : killed.launches)
    EXPECT_EQ(launch.state,
              launch.kind == LaunchKind::Timed ? LaunchState::Partial : LaunchState::Complete);
  const Result<MergeSummary> merged =
      merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all");
  ASSERT_FALSE(merged);
  EXPECT_THAT(merged.error().message, HasSubstr("measured twice"));
  EXPECT_FALSE(fs::exists(scratch / "all"));
  const int lock = lock_directory(scratch / "b"); // somebody writes it: the launch may go on
  for (const LaunchRow& launch : value_or_throw(read_ledger(scratch / "b")).launches)
    EXPECT_EQ(launch.state == LaunchState::Running, launch.kind == LaunchKind::Timed);
  ::close(lock);
}

// Two boards tried the same launch: merged, its attempts are told apart.
TEST(Merge, CountsTheAttemptsOfALaunchAnew) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"ema"};
  {
    const FakeBehaviour dies("die=timed/*/2");
    run_plan(plan, scratch / "a", options);
  }
  run_plan(plan, scratch / "b", options);
  Database(scratch / "b/ledger.sqlite", Database::Mode::ReadWrite) // not within the same second
      .execute("UPDATE launch SET started_utc = '2099-01-01T00:00:00Z'");
  value_or_throw(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all"));
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  std::map<std::tuple<std::int64_t, LaunchKind, int>, std::vector<int>> attempts;
  for (const LaunchRow& launch : all.launches)
    attempts[{launch.cell, launch.kind, launch.index}].push_back(launch.attempt);
  EXPECT_GT(all.launches.size(), attempts.size());
  for (const auto& [launch, numbers] : attempts)
    for (std::size_t i = 0; i < numbers.size(); ++i) EXPECT_EQ(numbers[i], static_cast<int>(i));
}

// Launches of one number have one seed: a second measurement of them is no larger sample, and
// nobody counts how often a person tries.
TEST(Merge, RefusesALaunchThatWasMeasuredTwice) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  run_plan(plan, scratch / "a", options);
  options.cells = {"guard"};
  {
    const FakeBehaviour behaviour("effect=1.5"); // else the fake's times are the same
    run_plan(plan, scratch / "b", options);
  }
  for (const auto& parts :
       {std::vector{scratch / "a", scratch / "b"}, std::vector{scratch / "b", scratch / "a"}})
    EXPECT_THAT(merge_ledgers(parts, scratch / "out").error().message,
                test::names("cell 'guard'", "timed launches 1 to 2", "--cell"));
  EXPECT_FALSE(fs::exists(scratch / "out"));
}

// One seed measured twice is one sample of memory, too; each parity launch proves its own machine.
TEST(Merge, CountsAMemoryLaunchOnce) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"ema"};
  run_plan(plan, scratch / "a", options);
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.round == 1) ::raise(SIGTERM);
  };
  run_plan(plan, scratch / "stopped", options);
  Database(scratch / "stopped/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE launch SET started_utc = '2099-01-01T00:00:00Z'");
  const MergeSummary merged =
      value_or_throw(merge_ledgers({scratch / "stopped", scratch / "a"}, scratch / "all"));
  EXPECT_EQ(merged.duplicates, 1);
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  std::map<LaunchKind, int> found;
  for (const LaunchRow& launch : all.launches) ++found[launch.kind];
  EXPECT_EQ(found[LaunchKind::Memory], 1);
  EXPECT_EQ(found[LaunchKind::Parity], 2);
  const auto memory = std::ranges::find(all.launches, LaunchKind::Memory, &LaunchRow::kind);
  EXPECT_NE(memory->started_utc, "2099-01-01T00:00:00Z");
}

// What the second run repeats was never finished by the first one, or gave its place to a
// repetition.
TEST(Merge, TakesALaunchThatCountsOnce) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"guard"};
  options.progress = [](const RunProgress& progress) {
    if (progress.task.kind == LaunchKind::Timed && progress.round == 2) ::raise(SIGTERM);
  };
  run_plan(plan, scratch / "stopped", options);
  options.progress = {};
  fs::copy(scratch / "stopped", scratch / "on", fs::copy_options::recursive);
  run_plan(plan, scratch / "on", options);
  fs::copy(scratch / "on", scratch / "again", fs::copy_options::recursive);
  options.redo = {"guard"};
  run_plan(plan, scratch / "again", options);
  const MergeSummary merged = value_or_throw(
      merge_ledgers({scratch / "stopped", scratch / "on", scratch / "again"}, scratch / "all"));
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  EXPECT_EQ(merged.launches,
            static_cast<int>(value_or_throw(read_ledger(scratch / "again")).launches.size()));
  EXPECT_EQ(std::count_if(all.launches.begin(),
                          all.launches.end(),
                          [&](const LaunchRow& launch) { return all.superseded(launch.id); }),
            2);
}

TEST(Merge, RefusesADirectoryThatARunIsWriting) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  for (const char* part : {"a", "b"}) {
    RunOptions options = fake_options();
    options.cells = {part[0] == 'a' ? "ema" : "guard"};
    run_plan(plan, scratch / part, options);
  }
  const int lock = lock_directory(scratch / "b");
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all").error().message,
              test::names("/b: process " + std::to_string(::getpid()), "tests_experiments"));
  EXPECT_FALSE(fs::exists(scratch / "all"));
  ::close(lock);
  EXPECT_TRUE(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all"));
}

TEST(Merge, TracesFollowTheirLaunches) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  for (const char* part : {"a", "b"}) {
    RunOptions options = fake_options();
    options.cells = {plan.ledger.cells[part[0] == 'a' ? 0 : 1].name};
    run_plan(plan, scratch / part, options);
    const LedgerData data = value_or_throw(read_ledger(scratch / part));
    fs::create_directories(scratch / part + "/traces");
    std::ofstream(fmt::format("{}/traces/{}.0.x.sqlite", scratch / part, data.launches.back().id))
        << part;
  }
  ASSERT_TRUE(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all"));
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  int traced = 0;
  for (const LaunchRow& launch : all.launches) {
    if (launch.kind != LaunchKind::Traced) continue;
    ++traced;
    std::ifstream file(fmt::format("{}/traces/{}.0.x.sqlite", scratch / "all", launch.id));
    std::string part;
    file >> part;
    EXPECT_EQ(part, launch.cell == 1 ? "a" : "b");
  }
  EXPECT_EQ(traced, 2);
}

TEST(Merge, RefusesAPartWhoseMarginWasMoved) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  for (const char* part : {"a", "b"}) run_plan(plan, scratch / part, fake_options());
  Database(scratch / "b/ledger.sqlite", Database::Mode::ReadWrite)
      .execute("UPDATE cell SET loss_margin = 0.5");
  for (const auto& parts :
       {std::vector{scratch / "a", scratch / "b"}, std::vector{scratch / "b", scratch / "a"}})
    EXPECT_THAT(merge_ledgers(parts, scratch / "out").error().message,
                test::names("b/ledger.sqlite:", "was changed after", "loss.margin of cell"));
  EXPECT_FALSE(fs::exists(scratch / "out"));
}

TEST(Merge, RefusesOtherPlansBuildsAndExistingOutput) {
  const Scratch scratch;
  run_plan(small_plan(scratch), scratch / "a", fake_options());
  std::string other = kSmallMatrix;
  other.replace(other.find("seed = 7"), 8, "seed = 8");
  run_plan(small_plan(scratch, other), scratch / "b", fake_options());
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "out").error().message,
              HasSubstr("one plan"));
  {
    const FakeBehaviour behaviour("build=fake-2");
    run_plan(small_plan(scratch), scratch / "c", fake_options());
  }
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "c"}, scratch / "out").error().message,
              HasSubstr("two builds"));
  {
    const FakeBehaviour behaviour("data=text-2");
    run_plan(small_plan(scratch), scratch / "d", fake_options());
  }
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "d"}, scratch / "out").error().message,
              HasSubstr("other data"));
  EXPECT_FALSE(fs::exists(scratch / "out"));
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "a"}, scratch / "b").error().message,
              HasSubstr("exists already"));
  EXPECT_THAT(merge_ledgers({scratch / "a"}, scratch / "out").error().message,
              HasSubstr("at least two"));
  EXPECT_THAT(merge_ledgers({scratch / "a", scratch / "none"}, scratch / "out").error().message,
              HasSubstr("no such directory"));
}

TEST(Merge, MakesTheParentsOfItsTarget) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"ema"};
  run_plan(plan, scratch / "a", options);
  fs::copy(scratch / "a", scratch / "copy", fs::copy_options::recursive);
  value_or_throw(merge_ledgers({scratch / "a", scratch / "copy"}, scratch / "new/two/both"));
  EXPECT_TRUE(fs::exists(scratch / "new/two/both/ledger.sqlite"));
  std::ofstream(scratch / "file") << "x";
  EXPECT_THAT(
      merge_ledgers({scratch / "a", scratch / "copy"}, scratch / "file/both").error().message,
      test::names(scratch / "file", "--out"));
}

TEST(Merge, DeletesNothingThatItDidNotMake) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  run_plan(plan, scratch / "a", fake_options());
  fs::copy(scratch / "a", scratch / "all.new", fs::copy_options::recursive);
  scratch.write("all.new/thesis.txt", "mine");
  value_or_throw(merge_ledgers({scratch / "a", scratch / "all.new"}, scratch / "all"));
  EXPECT_TRUE(fs::exists(scratch / "all.new/thesis.txt"));
  EXPECT_TRUE(fs::exists(scratch / "all.new/ledger.sqlite"));
  for (const auto& entry : fs::directory_iterator(fs::path(scratch / "all").parent_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".all")) << entry.path();
}

TEST(Merge, RefusesAnEmptyAndATakenOutput) {
  const Scratch scratch;
  run_plan(small_plan(scratch), scratch / "a", fake_options());
  const std::vector<std::string> inputs{scratch / "a", scratch / "a"};
  fs::create_symlink("loop", scratch / "loop");
  for (const std::string& output :
       {std::string(), scratch / "a", scratch / "loop", std::string("."), std::string("/")})
    EXPECT_FALSE(merge_ledgers(inputs, output)) << output;
}

TEST(Merge, WhatAKilledMergeLeavesIsNoResultsDirectory) {
  const Scratch scratch;
  run_plan(small_plan(scratch), scratch / "a", fake_options());
  scratch.write("a/merge.unfinished", "");
  const auto data = read_ledger(scratch / "a");
  ASSERT_FALSE(data);
  EXPECT_THAT(data.error().message, test::names("merge", "not end"));
}

TEST(Merge, KeepsTheCopyThatHasTraces) {
  const Scratch scratch;
  run_plan(small_plan(scratch), scratch / "bare", fake_options());
  fs::copy(scratch / "bare", scratch / "full", fs::copy_options::recursive);
  const LedgerData data = value_or_throw(read_ledger(scratch / "full"));
  const LaunchRow* traced =
      data.latest_launch(data.cells[0].id, LaunchKind::Traced, LaunchState::Complete);
  ASSERT_NE(traced, nullptr);
  fs::create_directories(scratch / "full/traces");
  scratch.write(fmt::format("full/traces/{}.0.a.sqlite", traced->id), "trace");
  scratch.write(fmt::format("full/traces/{}.0.b.sqlite.part", traced->id), "half");
  for (const bool first : {true, false}) {
    const std::string out = scratch / (first ? "x" : "y");
    value_or_throw(merge_ledgers(first ? std::vector{scratch / "full", scratch / "bare"}
                                       : std::vector{scratch / "bare", scratch / "full"},
                                 out));
    ASSERT_TRUE(fs::exists(out + "/traces")) << first;
    EXPECT_EQ(std::distance(fs::directory_iterator(out + "/traces"), {}), 1) << first;
  }
}

TEST(Merge, RepeatsFollowTheirLaunches) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  RunOptions options = fake_options();
  options.cells = {"guard"};
  run_plan(plan, scratch / "a", options);
  options.cells = {"ema"};
  run_plan(plan, scratch / "b", options);
  options.redo = {"ema"};
  run_plan(plan, scratch / "b", options);
  Database(scratch / "b/ledger.sqlite", Database::Mode::ReadWrite) // not within the same second
      .execute("UPDATE launch SET started_utc = '2099-01-01T00:00:00Z'");
  value_or_throw(merge_ledgers({scratch / "a", scratch / "b"}, scratch / "all"));
  const LedgerData all = value_or_throw(read_ledger(scratch / "all"));
  int repeats = 0;
  for (const LaunchRow& launch : all.launches) {
    if (launch.repeats == 0) continue;
    ++repeats;
    const auto repeated =
        std::find_if(all.launches.begin(), all.launches.end(), [&](const LaunchRow& row) {
          return row.id == launch.repeats;
        });
    ASSERT_NE(repeated, all.launches.end());
    EXPECT_EQ(repeated->cell, launch.cell);
    EXPECT_EQ(repeated->index, launch.index);
  }
  EXPECT_EQ(repeats, 2);
}

} // namespace merge_test
} // namespace assay
