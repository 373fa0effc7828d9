// The engine's handle of a ledger: creation, commits, launch ends.
#include "core/ledger/ledger.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/files/output_target.h"
#include "core/files/temporary_file.h"
#include "core/ledger/abandoned.h"
#include "core/ledger/directory_lock.h"
#include "core/ledger/launch_rules.h"
#include "core/ledger/ledger_schema.h"
#include "core/ledger/plan_difference.h"
#include "core/ledger/storage/ledger_rows.h"
#include "core/sqlite/database.h"
#include "core/sqlite/sqlite_file.h"
#include "core/text.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// The directory that the user named. Merge and demo write into one beside or inside it, which they
// rename: ".NAME.merge-AbC", ".demo-AbC".
std::string asked_directory(const std::string& directory) {
  const fs::path path(directory);
  const std::string name = path.filename().string();
  if (name.starts_with(".demo-")) return path.parent_path().string();
  const std::size_t tag = name.rfind(".merge-");
  if (!name.starts_with(".") || tag == 0 || tag == std::string::npos) return directory;
  return (path.parent_path() / name.substr(1, tag - 1)).lexically_normal().string();
}

[[noreturn]] void raise_full(const std::string& directory, const DatabaseError& error) {
  const std::string asked = asked_directory(directory);
  if (asked != directory)
    bad_input("{}: the ledger cannot be written: the disk is full, or a size limit is reached. "
              "Free space and run the same command again",
              asked);
  bad_input("{}: the ledger cannot be written: the disk is full, or a size limit is reached. "
            "Rounds that were committed before, if any, are kept; free space and run the same "
            "command again ({})",
            directory,
            error.what());
}

// SQLite itself writes on into a file that no directory names any more.
void check_in_place(const Database& db) {
  int moved = 0;
  sqlite3_file_control(db.handle(), "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0)
    bad_input("{}: was moved or removed while this run wrote to it, so the run ends here. Run the "
              "same command again; if the results were moved, name their new place with --out",
              db.path());
}

// Runs `body`, and turns "disk full" into a message that names the next action.
template <class Body> auto writing(const Database& db, Body body) {
  check_in_place(db);
  try {
    return body();
  } catch (const DatabaseError& error) {
    if (!error.is_full()) throw;
    raise_full(fs::path(db.path()).parent_path().string(), error);
  }
}

// Made under another name and renamed when whole: `ledger.sqlite` never exists without its plan.
void create_file(const std::string& directory, const std::string& path, const LedgerData& plan) {
  TemporaryFile fresh(path);
  if (fresh.error() != 0)
    bad_input("{}: no ledger can be made in it: {}; {}",
              asked_directory(directory),
              std::strerror(fresh.error()),
              write_remedy(fresh.error()));
  try {
    const Database db(fresh.path(), Database::Mode::Create);
    {
      db.execute("PRAGMA synchronous = FULL");
      Transaction transaction(db);
      db.execute(ledger_schema::kTables);
      db.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                             kLedgerApplicationId,
                             kLedgerSchema));
      ledger_rows::insert_plan(db, plan);
      transaction.commit();
    }
  } catch (const DatabaseError& error) {
    if (!error.is_full()) throw;
    bad_input("{}: no ledger can be made in it: the disk is full, or a size limit is reached. "
              "Free space, or choose another directory",
              asked_directory(directory));
  }
  if (const int error = fresh.place(true); error != 0)
    bad_input("{}: {}; {}", path, std::strerror(error), write_remedy(error));
}

void check_same_plan(const Database& db, const std::string& directory, const SpecRow& spec) {
  Statement s = db.prepare("SELECT hash, name, plan_json FROM spec");
  if (!s.step())
    throw Failure(Failure::Kind::BadInput,
                  ledger_schema::damaged(db.path(), "it contains no plan").message);
  if (s.text(0) == spec.hash) return;
  const std::string difference = plan_difference(s.text(2), spec.plan_json);
  bad_input(
      "{} contains another plan ('{}', {}) than this one ('{}', {}): {}. A plan is fixed before "
      "its first result, so that no result chooses what is measured; {}",
      directory,
      s.text(1),
      s.text(0),
      spec.name,
      spec.hash,
      difference.empty() ? "its matrix, overrides or claims differ" : difference,
      kStartAnew);
}

} // namespace

std::unique_ptr<Ledger> Ledger::open(const std::string& directory, const LedgerData& plan) {
  make_directory(directory);
  std::unique_ptr<Ledger> ledger(new Ledger);
  ledger->lock_fd_ = lock_directory(directory);
  const std::string path = (fs::path(directory) / ledger_schema::kFileName).string();
  if (!fs::exists(path)) create_file(directory, path, plan);
  value_or_throw(ledger_schema::check_file(path));
  try {
    ledger->database_ = std::make_unique<Database>(path, Database::Mode::ReadWrite);
    const Database& db = *ledger->database_;
    const std::int64_t schema = db.integer("PRAGMA user_version");
    value_or_throw(ledger_schema::check_version(path, schema));
    if (schema < kLedgerSchema)
      bad_input("{}: was written by an older Assay (schema {}, this build writes {}): it can be "
                "read but not continued; {}",
                directory,
                schema,
                kLedgerSchema,
                kStartAnew);
    ledger_schema::check_pages(db);
    check_same_plan(db, directory, plan.spec);
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
  } catch (const DatabaseError& error) {
    if (error.is_damaged())
      throw Failure(Failure::Kind::BadInput, ledger_schema::damaged(path, error.what()).message);
    if (error.is_full()) raise_full(directory, error);
    throw;
  }
  return ledger;
}

Ledger::~Ledger() {
  database_.reset();
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

std::int64_t Ledger::start_launch(const LaunchRow& launch) {
  return writing(*database_, [&] {
    Transaction transaction(*database_);
    const std::int64_t id = ledger_rows::insert_launch(*database_, launch);
    transaction.commit();
    return id;
  });
}

void Ledger::set_identity(std::int64_t launch,
                          const Identity& identity,
                          const std::string& build_order) {
  writing(*database_, [&] {
    Transaction transaction(*database_);
    ledger_rows::update_identity(*database_, launch, identity, build_order);
    transaction.commit();
  });
}

void Ledger::commit_round(const std::vector<VisitRow>& visits,
                          const std::vector<EventRow>& events) {
  writing(*database_, [&] {
    Transaction transaction(*database_);
    ledger_rows::insert_visits(*database_, visits);
    ledger_rows::insert_events(*database_, events);
    transaction.commit();
  });
}

void Ledger::add(const std::vector<MetricRow>& metrics,
                 const std::vector<GateRow>& gates,
                 const std::vector<EventRow>& events) {
  writing(*database_, [&] {
    Transaction transaction(*database_);
    ledger_rows::insert_metrics(*database_, metrics);
    ledger_rows::insert_gates(*database_, gates);
    ledger_rows::insert_events(*database_, events);
    transaction.commit();
  });
}

void Ledger::add(const std::vector<CalibrationRow>& calibrations) {
  writing(*database_, [&] {
    Transaction transaction(*database_);
    ledger_rows::insert_calibrations(*database_, calibrations);
    transaction.commit();
  });
}

void Ledger::add(std::int64_t launch,
                 const std::vector<MeterRow>& meters,
                 const std::vector<MeterReading>& readings) {
  if (readings.empty()) return;
  writing(*database_, [&] {
    Transaction transaction(*database_);
    ledger_rows::insert_readings(*database_, launch, meters, readings);
    transaction.commit();
  });
}

void Ledger::end_launch(std::int64_t launch,
                        LaunchState state,
                        const std::string& reason,
                        bool steady) {
  writing(*database_, [&] {
    Transaction transaction(*database_);
    Statement update = database_->prepare(
        "UPDATE launch SET state = ?2, reason = ?3, steady = ?4, ended_utc = ?5 WHERE id = ?1");
    update.bind(1, launch).bind(2, to_string(state)).bind(3, reason);
    update.bind(4, static_cast<int>(steady)).bind(5, utc_now()).run();
    transaction.commit();
    // Syncs the WAL, then copies into the main file what no reader still needs.
    database_->integer("PRAGMA wal_checkpoint(PASSIVE)");
  });
}

void Ledger::close_abandoned_launches() {
  if (database_->integer("SELECT count(*) FROM launch WHERE state = 'running'") == 0) return;
  const std::string reason = kEngineStopped;
  const std::vector<AbandonedLaunch> abandoned = abandoned_launches(read());
  writing(*database_, [&] {
    Transaction transaction(*database_);
    Statement update = database_->prepare(
        "UPDATE launch SET state = ?2, reason = ?3, ended_utc = ?4 WHERE id = ?1");
    for (const auto& [id, state] : abandoned) {
      update.bind(1, id).bind(2, to_string(state)).bind(3, reason).bind(4, utc_now()).run();
      ledger_rows::insert_events(*database_, {{id, -1, utc_now(), "stopped", reason}});
    }
    transaction.commit();
  });
}

void Ledger::tell_activity(const std::string& activity) {
  assay::tell_activity(lock_fd_, activity);
}

void Ledger::finish() {
  try {
    writing(*database_, [&] {
      database_->integer("PRAGMA wal_checkpoint(TRUNCATE)");
      database_->execute("PRAGMA journal_mode = DELETE");
    });
  } catch (const DatabaseError& error) {
    if (!error.is_busy()) throw; // a reader is looking: the ledger stays in WAL mode, whole
  }
}

LedgerData Ledger::read() const {
  check_in_place(*database_);
  return ledger_rows::read(*database_);
}

} // namespace assay
