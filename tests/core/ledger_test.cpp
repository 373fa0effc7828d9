#include "core/ledger/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/ledger/abandoned.h"
#include "core/ledger/calibration.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/storage/plan_json.h"
#include "core/sqlite/database.h"
#include "core/text.h"
#include "tests/core/ledger_support.h"
#include "tests/names.h"
#include "tests/paths.h"

namespace assay {
namespace ledger_test {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(LedgerTest, KeepsThePlan) {
  open()->finish();
  const LedgerData data = value_or_throw(read_ledger(directory_));
  const LedgerData plan = small_plan();
  EXPECT_EQ(data.spec.hash, plan.spec.hash);
  EXPECT_EQ(data.spec.seed, plan.spec.seed);
  EXPECT_EQ(data.spec.matrix_toml, plan.spec.matrix_toml);
  EXPECT_EQ(data.spec.launches, 5);
  EXPECT_EQ(data.spec.sesoi, 0.01);
  ASSERT_EQ(data.optimizations.size(), 1u);
  EXPECT_EQ(data.optimizations[0].equality, "equal");
  EXPECT_EQ(data.optimizations[0].levels.at(0).span, "span/a");
  EXPECT_EQ(data.optimizations[0].also_compare, plan.optimizations[0].also_compare);
  EXPECT_EQ(data.optimizations[0].design, "ladder");
  ASSERT_EQ(data.optimizations[0].contrasts.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const ContrastRow &kept = data.optimizations[0].contrasts[i],
                      &planned = plan.optimizations[0].contrasts[i];
    EXPECT_EQ(kept.name, planned.name);
    EXPECT_EQ(kept.kind, planned.kind);
    EXPECT_EQ(kept.terms, planned.terms);
  }
  EXPECT_EQ(data.claims.at(0).text, "« texte »");
  EXPECT_EQ(data.claims.at(0).hi, 0.15);
  EXPECT_THAT(data.claims.at(0).source_errors, testing::ElementsAre("one", "two"));
  EXPECT_EQ(data.cell(1).launches, 3);
  EXPECT_EQ(data.cell(1).loss_seeds, 5);
  EXPECT_EQ(data.cell(1).loss_rounds, 50);
  EXPECT_EQ(data.cell(1).loss_steps, 10);
  EXPECT_EQ(data.cell(1).loss_margin, 0.02);
  EXPECT_EQ(data.variant(3).role, Role::Control);
  EXPECT_THROW(data.variant(4), Failure);
  EXPECT_EQ(data.spec.directory, "/where it ran");
  EXPECT_EQ(data.spec.limits.steal, 0.06);
  EXPECT_EQ(data.spec.limits.run_delay, 0.25);
  EXPECT_EQ(data.spec.limits.pairs, 0.3);
  ASSERT_NE(data.cost(1), nullptr);
  EXPECT_EQ(data.cost(1)->tokens, 128);
  EXPECT_TRUE(data.cost(1)->all_kernel_launches);
  ASSERT_EQ(data.cost(1)->operations.size(), 2u);
  EXPECT_EQ(data.cost(1)->operations[0].name, "mm");
  EXPECT_EQ(data.cost(1)->operations[0].flops, 3e9);
  EXPECT_EQ(data.cost(1)->operations[0].bytes, 4e6);
  EXPECT_EQ(data.cost(1)->operations[0].kernels, 7);
  EXPECT_EQ(data.cost(1)->operations[0].peak, Peak::Fp8);
  EXPECT_FALSE(data.cost(2)->all_kernel_launches);
  EXPECT_EQ(data.cost(3), nullptr);
  ASSERT_EQ(data.notes.size(), 2u);
  EXPECT_EQ(data.notes[0].cell, "cell");
  EXPECT_EQ(data.notes[0].text, "split into 2 groups");
  EXPECT_EQ(data.notes[1].cell, "");
  EXPECT_TRUE(data.calibrations.empty());
}

// Notes and calibrations are no part of the plan: they neither make another one nor change it.
TEST_F(LedgerTest, NotesAreNoPartOfThePlan) {
  LedgerData plan = small_plan();
  plan.notes.clear();
  seal_plan(plan);
  EXPECT_EQ(plan.spec.hash, small_plan().spec.hash);
}

TEST_F(LedgerTest, KeepsEveryCalibrationOnce) {
  const auto ledger = open();
  const CalibrationRow late = calibration("host", "2026-02-01T00:00:00Z"),
                       early = calibration("host", "2026-01-01T00:00:00Z");
  ledger->add({late, early});
  ledger->add({early, calibration("other", "2026-01-15T00:00:00Z")});
  const LedgerData data = ledger->read();
  ASSERT_EQ(data.calibrations.size(), 3u);
  EXPECT_EQ(data.calibrations[0].utc, early.utc); // the oldest first
  EXPECT_EQ(data.calibrations[1].host, "other");
  const CalibrationRow& row = data.calibrations[2];
  const auto fields = [](const CalibrationRow& of) {
    std::string text;
    for_each_calibration_field(of, [&](const char* name, const auto& value) {
      text += fmt::format("{}={};", name, value);
    });
    return text;
  };
  EXPECT_EQ(fields(row), fields(late));
  EXPECT_THAT(fields(row), test::names("cores=2;", "aa_low=-0.002;", "planted_speed=SLOWER;"));
}

TEST_F(LedgerTest, KeepsEveryRow) {
  const auto ledger = open();
  LaunchRow launch = timed_launch();
  const std::int64_t id = ledger->start_launch(launch);
  Identity identity{"build",
                    "2.11",
                    "13.0",
                    "580",
                    "H200",
                    "GPU-1",
                    "host",
                    "boot",
                    "cpu",
                    "kernel",
                    2,
                    1,
                    "OMP=1\n"};
  ledger->set_identity(id, identity, "b a control");
  VisitRow full = visit(id, 1, 0);
  full.warmup = true;
  full.device_ns = 900;
  full.loss = 2.5;
  full.skipped_steps = 1;
  full.covariates = {0.1, 0.2, 0.3, 4, 5, 6.0, 7.0, 8.0, 9.0, 10, 11, 12.0};
  VisitRow bare = visit(id, 2, 0);
  bare.position = 1;
  ledger->commit_round({full, bare}, {{id, 0, "t", "warmup_end", "steady"}});
  ledger->add({{id, 0, "time/step_ns", "ns", 5.5, ""},
               {id, 2, "memory/peak_bytes", "bytes", std::nan(""), "none"}},
              {{id, 2, "bitwise/weights", false, std::nan(""), 0.25, "why"}},
              {});
  ledger->end_launch(id, LaunchState::Partial, "stopped", false);
  const LedgerData data = ledger->read();
  const LaunchRow& row = data.launches.at(0);
  EXPECT_EQ(row.state, LaunchState::Partial);
  EXPECT_EQ(row.reason, "stopped");
  EXPECT_FALSE(row.steady);
  EXPECT_FALSE(row.ended_utc.empty());
  EXPECT_EQ(row.build_order, "b a control");
  EXPECT_EQ(row.identity.gpu_uuid, "GPU-1");
  EXPECT_EQ(row.identity.environment, "OMP=1\n");
  EXPECT_EQ(row.identity.cores, 2);
  ASSERT_EQ(data.visits.size(), 2u);
  EXPECT_TRUE(data.visits[0].warmup);
  EXPECT_EQ(data.visits[0].device_ns, 900);
  EXPECT_EQ(data.visits[0].loss, 2.5);
  EXPECT_EQ(data.visits[0].covariates.steal_share, 0.1);
  EXPECT_EQ(data.visits[0].covariates.involuntary_switches, 5);
  EXPECT_EQ(data.visits[0].covariates.temperature_c, 9.0);
  EXPECT_EQ(data.visits[0].covariates.foreign_processes, 11);
  EXPECT_EQ(data.visits[1].device_ns, std::nullopt);
  EXPECT_EQ(data.visits[1].loss, std::nullopt);
  EXPECT_EQ(data.visits[1].covariates.steal_share, std::nullopt); // absent, not 0
  EXPECT_EQ(data.visits[1].covariates.throttle_reasons, std::nullopt);
  EXPECT_EQ(data.visits[1].sample_ns, (std::vector<std::int64_t>{500, 500}));
  EXPECT_EQ(data.metrics.at(0).variant, 0);
  EXPECT_TRUE(std::isnan(data.metrics.at(1).value));
  EXPECT_TRUE(std::isnan(data.gates.at(0).value));
  EXPECT_EQ(data.gates.at(0).bound, 0.25);
  EXPECT_FALSE(data.gates.at(0).passed);
  EXPECT_EQ(data.events.at(0).kind, "warmup_end");
}

TEST_F(LedgerTest, KeepsWhoWasRetiredAndWhy) {
  const auto ledger = open();
  const std::int64_t id = ledger->start_launch(timed_launch());
  ledger->add(
      {}, {}, {{id, 3, "t", "retired", "b: why", 2, kCauseMemory}, {id, 3, "t", "stopped", ""}});
  const LedgerData data = ledger->read();
  EXPECT_EQ(data.events.at(0).variant, 2);
  EXPECT_EQ(data.events.at(0).cause, kCauseMemory);
  EXPECT_EQ(data.events.at(1).variant, 0);
  EXPECT_EQ(data.events.at(1).cause, "");
}

// A launch that is measured again gives its place away once the later one counts, not before.
TEST_F(LedgerTest, ALaunchIsSupersededByACompleteRepeat) {
  const auto ledger = open();
  const std::int64_t first = ledger->start_launch(timed_launch());
  ledger->end_launch(first, LaunchState::Complete, "", true);
  LaunchRow again = timed_launch();
  again.attempt = 1;
  again.repeats = first;
  const std::int64_t second = ledger->start_launch(again);
  EXPECT_EQ(ledger->read().launches.at(1).repeats, first);
  EXPECT_EQ(ledger->read().launches.at(0).repeats, 0);
  EXPECT_FALSE(ledger->read().superseded(first));
  ledger->end_launch(second, LaunchState::Failed, "killed", true);
  EXPECT_FALSE(ledger->read().superseded(first));
  const std::int64_t third = ledger->start_launch(again);
  ledger->end_launch(third, LaunchState::Partial, "", true);
  EXPECT_TRUE(ledger->read().superseded(first));
  EXPECT_FALSE(ledger->read().superseded(third));
}

TEST_F(LedgerTest, ARoundIsWholeOrNotThere) {
  const auto ledger = open();
  const std::int64_t id = ledger->start_launch(timed_launch());
  ledger->commit_round({visit(id, 1, 0), visit(id, 2, 0)}, {});
  EXPECT_THROW(ledger->commit_round({visit(id, 1, 1), visit(id, 99, 1)}, {}),
               Failure); // no such variant
  EXPECT_THROW(ledger->commit_round({visit(id, 1, 2), visit(id, 1, 2)}, {}), Failure); // twice
  EXPECT_EQ(ledger->read().visits.size(), 2u);
}

TEST_F(LedgerTest, ReadsBesideAWriter) {
  const auto ledger = open();
  const std::int64_t id = ledger->start_launch(timed_launch());
  for (int round = 0; round < 3; ++round) {
    ledger->commit_round({visit(id, 1, round)}, {});
    EXPECT_EQ(value_or_throw(read_ledger(directory_)).visits.size(),
              static_cast<std::size_t>(round + 1));
  }
}

TEST_F(LedgerTest, FinishLeavesOneFile) {
  const auto ledger = open();
  ledger->end_launch(ledger->start_launch(timed_launch()), LaunchState::Complete, "", true);
  EXPECT_TRUE(fs::exists(file() + "-wal"));
  ledger->finish();
  EXPECT_FALSE(fs::exists(file() + "-wal"));
  EXPECT_FALSE(fs::exists(file() + "-shm"));
}

TEST_F(LedgerTest, FinishBesideAReaderKeepsTheLedgerWhole) {
  const auto ledger = open();
  ledger->end_launch(ledger->start_launch(timed_launch()), LaunchState::Complete, "", true);
  {
    const Database reader(file(), Database::Mode::ReadOnly);
    const Transaction snapshot(reader, "BEGIN");
    EXPECT_EQ(reader.integer("SELECT count(*) FROM launch"), 1);
    ledger->finish();
  }
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).launches.size(), 1u);
}

TEST_F(LedgerTest, TheSecondWriterIsRefusedByName) {
  const auto ledger = open();
  const std::string message = failure_of([&] { open(); });
  EXPECT_THAT(message,
              HasSubstr(fmt::format("{} is in use by process {} (", directory_, ::getpid())));
  EXPECT_THAT(message, test::names("wait", "stop it"));
  EXPECT_THAT(lock_holder(directory_), HasSubstr(fmt::format("process {}", ::getpid())));
}

TEST_F(LedgerTest, TheLockEndsWithItsHolder) {
  open().reset();
  EXPECT_EQ(lock_holder(directory_), "");
  EXPECT_NE(open(), nullptr);
}

TEST_F(LedgerTest, AnotherPlanIsRefused) {
  open().reset();
  LedgerData other = small_plan();
  other.spec.hash = "hash-2";
  const std::string message = failure_of([&] { Ledger::open(directory_, other); });
  EXPECT_THAT(message,
              HasSubstr(fmt::format("contains another plan ('small', {}) than this one "
                                    "('small', hash-2)",
                                    small_plan().spec.hash)));
  EXPECT_THAT(message, HasSubstr("--fork"));
}

// Nobody moves the margin, the level or the claimed range after the data.
TEST_F(LedgerTest, AChangedPlanIsNotRead) {
  const std::vector<std::pair<const char*, const char*>> changes{
      {"UPDATE cell SET loss_margin = 0.0001",
       "changed after it was made: loss.margin of cell 'cell' is 0.0001, its plan has 0.02"},
      {"UPDATE spec SET alpha = 0.5", "alpha is 0.5, its plan has 0.05"},
      {"UPDATE claim SET lo = 0.05", "gain of claim 'c1' is [0.05,0.15], its plan has [0.1,0.15]"},
      {"UPDATE claim SET requires_json = '{\"a\":1}'", "requires.a of claim"},
      {"UPDATE contrast_term SET weight = 2 WHERE contrast = 0 AND position = 1",
       "terms of contrast 'a x b' of optimization 'opt'"},
      {"DELETE FROM contrast_term; DELETE FROM contrast", "0 contrasts"},
      {"UPDATE level SET span = 'x' WHERE name = 'a'", "span of level 'a' of optimization 'opt'"},
      {"UPDATE variant SET config_json = '{\"lr\":1}' WHERE id = 2",
       "config.lr of variant 'b' of cell 'cell' is 1, its plan has null"},
      {"UPDATE cell SET config_json = '{\"lr\":1}'", "config_json of cell 'cell'"},
      {"DELETE FROM variant WHERE id = 3", "it has 2 variants of cell 'cell', its plan 3"},
      {"DELETE FROM claim", "it has 0 claims, its plan 1"},
      {"UPDATE claim SET requires_json = '{'", "cannot be read"},
      {"UPDATE spec SET plan_json = replace(plan_json, '0.05', '0.5'), alpha = 0.5",
       "its plan_json has hash"}};
  for (const auto& [change, message] : changes) {
    fs::remove_all(directory_);
    open()->finish();
    ASSERT_EQ(error(), "");
    Database(file(), Database::Mode::ReadWrite).execute(change);
    EXPECT_THAT(error(), HasSubstr("was changed after"));
    EXPECT_THAT(error(), HasSubstr(message)) << change;
    EXPECT_THAT(failure_of([&] { static_cast<void>(open()->read()); }), HasSubstr(message));
  }
}

TEST_F(LedgerTest, AbandonedLaunchesAreClosed) {
  std::int64_t few = 0, half = 0, parity = 0;
  {
    const auto ledger = open();
    few = ledger->start_launch(timed_launch(1));
    half = ledger->start_launch(timed_launch(2));
    LaunchRow check = timed_launch(1);
    check.kind = LaunchKind::Parity;
    check.rounds_planned = 0;
    parity = ledger->start_launch(check);
    VisitRow warm = visit(few, 1, 0);
    warm.warmup = true; // does not count
    ledger->commit_round({warm, visit(few, 1, 1)}, {});
    ledger->commit_round({visit(half, 1, 0), visit(half, 2, 0)}, {});
    ledger->commit_round({visit(half, 1, 1), visit(half, 2, 1)}, {});
  }
  const auto ledger = open();
  std::map<std::int64_t, LaunchState> told; // `assay status` reads the same rule
  for (const auto& [id, state] : abandoned_launches(ledger->read())) told[id] = state;
  ledger->close_abandoned_launches();
  for (const LaunchRow& launch : ledger->read().launches)
    EXPECT_EQ(told.at(launch.id), launch.state);
  const LedgerData data = ledger->read();
  EXPECT_EQ(data.launches.at(0).state, LaunchState::Failed);
  EXPECT_EQ(data.launches.at(1).state, LaunchState::Partial);
  EXPECT_EQ(data.launches.at(2).state, LaunchState::Failed);
  EXPECT_THAT(data.launches.at(0).reason, HasSubstr("engine was stopped"));
  EXPECT_EQ(data.events.size(), 3u);
  EXPECT_TRUE(few < half && half < parity);
}

// A writer that dies leaves its WAL; a reader sees every committed round, and changes nothing.
TEST_F(LedgerTest, ReadsAfterKill9) {
  const pid_t writer = ::fork();
  if (writer == 0) {
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    for (int round = 0; round < 20; ++round) ledger->commit_round({visit(id, 1, round)}, {});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(writer, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_GT(fs::file_size(file() + "-wal"), 0u);
  const auto before = fs::file_size(file());
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).visits.size(), 20u);
  EXPECT_EQ(fs::file_size(file()), before);
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).launches.at(0).state, LaunchState::Partial);
}

TEST_F(LedgerTest, DistinctMessages) {
  EXPECT_THAT(error(), HasSubstr("no such directory"));
  fs::create_directories(directory_);
  EXPECT_THAT(error(), HasSubstr("contains no ledger.sqlite"));
  std::ofstream(file()) << "not a database, but long enough to be looked at; not a database, but "
                           "long enough to be looked at";
  EXPECT_THAT(error(), test::names("Assay ledger", "not an SQLite"));
  fs::remove(file());
  Database(file(), Database::Mode::Create).execute("CREATE TABLE t(x)");
  EXPECT_THAT(error(), HasSubstr("of another program"));
  EXPECT_THAT(failure_of([&] { open(); }),
              HasSubstr("of another program")); // never written to
  fs::remove(file());
  std::ofstream(file()).close();
  EXPECT_THAT(error(), test::names("damaged", "is empty"));
}

TEST_F(LedgerTest, ANewerSchemaIsRefused) {
  open()->finish();
  const std::string newer = std::to_string(kLedgerSchema + 1);
  Database(file(), Database::Mode::ReadWrite).execute("PRAGMA user_version = " + newer);
  EXPECT_THAT(error(), test::names("schema " + newer, "newer", fmt::format("({})", kLedgerSchema)));
  EXPECT_THAT(failure_of([&] { open(); }), test::names("schema " + newer, "newer"));
}

// Schema 1 had no traced launches: it reads as if none were asked for, and is not written to.
TEST_F(LedgerTest, AnOlderSchemaIsReadAndNotContinued) {
  {
    const auto ledger = open();
    const std::int64_t id = ledger->start_launch(timed_launch());
    ledger->add({},
                {},
                {{id, 2, "t", "retired", "b: loss of variant 'b' is -nan in round 2"},
                 {id, 2, "t", "retired", "out of memory in variant 'a': 12 GiB"},
                 {id, 2, "t", "stopped", "loss of 'a' is nan"}});
    ledger->finish();
  }
  EXPECT_EQ(value_or_throw(read_ledger(directory_)).cells.at(0).traced_rounds, 4);
  Database(file(), Database::Mode::ReadWrite)
      .execute("ALTER TABLE claim DROP COLUMN stages; ALTER TABLE claim DROP COLUMN lints; "
               "ALTER TABLE cell DROP COLUMN traced_rounds; "
               "ALTER TABLE cell DROP COLUMN loss_seeds; ALTER TABLE cell DROP COLUMN loss_rounds; "
               "ALTER TABLE cell DROP COLUMN loss_steps; ALTER TABLE cell DROP COLUMN loss_margin; "
               "ALTER TABLE spec DROP COLUMN steal_limit; "
               "ALTER TABLE spec DROP COLUMN run_delay_limit; "
               "ALTER TABLE spec DROP COLUMN pairs_limit; "
               "DROP TABLE operation_cost; DROP TABLE step_cost; "
               "DROP TABLE contrast_term; DROP TABLE contrast; "
               "ALTER TABLE optimization DROP COLUMN design; "
               "ALTER TABLE launch DROP COLUMN repeats; "
               "ALTER TABLE event DROP COLUMN variant; ALTER TABLE event DROP COLUMN cause; "
               "DROP TABLE note; DROP TABLE calibration; "
               "PRAGMA user_version = 1");
  nlohmann::json sealed = nlohmann::json::parse(small_plan().spec.plan_json);
  for (const char* key : {"stages", "lints"}) sealed["claims"][0].erase(key);
  sealed.erase("limits");
  for (const char* key : {"traced_rounds", "loss"}) sealed["cells"][0].erase(key);
  for (const char* key : {"design", "contrasts"}) sealed["optimizations"][0].erase(key);
  {
    const Database db(file(), Database::Mode::ReadWrite);
    Statement update = db.prepare("UPDATE spec SET plan_json = ?1, hash = ?2");
    update.bind(1, sealed.dump()).bind(2, content_hash(sealed.dump())).run();
  }
  const Result<LedgerData> data = read_ledger(directory_);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->claims.at(0).stages, "");
  EXPECT_TRUE(data->claims.at(0).source_errors.empty());
  EXPECT_EQ(data->optimizations.at(0).design, "");
  EXPECT_TRUE(data->optimizations.at(0).contrasts.empty());
  EXPECT_EQ(data->cells.at(0).traced_rounds, 0);
  EXPECT_EQ(data->cells.at(0).loss_seeds, 0);
  EXPECT_EQ(data->cells.at(0).loss_margin, 0);
  EXPECT_EQ(data->spec.limits.steal, DisturbanceLimits().steal);
  EXPECT_EQ(data->cost(1), nullptr);
  EXPECT_TRUE(data->notes.empty());
  EXPECT_TRUE(data->calibrations.empty());
  EXPECT_EQ(data->launches.at(0).repeats, 0);
  EXPECT_EQ(data->events.at(0).variant, 2);
  EXPECT_EQ(data->events.at(0).cause, kCauseLoss);
  EXPECT_EQ(data->events.at(1).variant, 1);
  EXPECT_EQ(data->events.at(1).cause, kCauseMemory);
  EXPECT_EQ(data->events.at(2).variant, 0);
  EXPECT_THAT(failure_of([&] { open(); }), test::names("older", "Assay (schema 1"));
}

// The ledgers behind docs/results are of every schema that was released.
TEST(ReleasedLedgers, OpenInThisBuild) {
  std::set<std::int64_t> schemas;
  for (const auto& entry : fs::recursive_directory_iterator(test::source_dir() + "/docs/results")) {
    if (entry.path().filename() != "ledger.sqlite") continue;
    schemas.insert(
        Database(entry.path().string(), Database::Mode::Immutable).integer("PRAGMA user_version"));
    const Result<LedgerData> data = read_ledger(entry.path().parent_path().string());
    ASSERT_TRUE(data) << data.error().message;
    EXPECT_FALSE(data->launches.empty()) << entry.path();
    for (const EventRow& event : data->events)
      EXPECT_EQ(event.kind == "retired", event.variant != 0) << entry.path() << event.detail;
  }
  EXPECT_THAT(schemas, testing::IsSupersetOf({1, 2, 3, 4, 5, 6, 8, 9}));
}

TEST_F(LedgerTest, ALockedLedgerSaysWhoAndWhatToDo) {
  const auto ledger = open();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const Database other(file(), Database::Mode::ReadWrite);
    other.execute("BEGIN IMMEDIATE");
    (void)!::write(ready[1], "x", 1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const std::string message = failure_of([&] { ledger->start_launch(timed_launch()); });
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_THAT(message, HasSubstr("in a transaction"));
}

TEST_F(LedgerTest, OddLockFilesAreNamedAndLinksNotFollowed) {
  const auto ledger = open();
  scratch_.write("r/ledger.lock", R"({"pid":"x","host":7})");
  EXPECT_THAT(failure_of([&] { open(); }), test::names("process ? (?)", "on ?"));
  fs::create_directory(scratch_ / "other");
  scratch_.write("mine.txt", "mine");
  fs::create_symlink(scratch_ / "mine.txt", scratch_ / "other/ledger.lock");
  EXPECT_NE(failure_of([&] { Ledger::open(scratch_ / "other", small_plan()); }), "");
  EXPECT_EQ(fs::file_size(scratch_ / "mine.txt"), 4u);
}

} // namespace ledger_test
} // namespace assay
