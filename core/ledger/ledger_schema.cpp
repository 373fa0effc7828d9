#include "core/ledger/ledger_schema.h"

#include <filesystem>
#include <set>

#include "core/file_kind.h"
#include "core/files/shell_text.h"
#include "core/ledger/ledger.h"
#include "core/sqlite/database.h"
#include "core/sqlite/sqlite_file.h"
#include "core/text.h"

namespace assay::ledger_schema {

const char* const kTables = R"sql(
CREATE TABLE spec(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  hash TEXT NOT NULL, name TEXT NOT NULL, seed INTEGER NOT NULL,
  matrix_toml TEXT NOT NULL, plan_json TEXT NOT NULL, command TEXT NOT NULL, created_utc TEXT NOT NULL,
  launches INTEGER NOT NULL, alpha REAL NOT NULL, sesoi REAL NOT NULL, power REAL NOT NULL,
  steal_limit REAL NOT NULL, run_delay_limit REAL NOT NULL, pairs_limit REAL NOT NULL,
  directory TEXT NOT NULL
) STRICT;
CREATE TABLE optimization(
  name TEXT PRIMARY KEY, position INTEGER NOT NULL, summary TEXT NOT NULL, equivalence TEXT NOT NULL,
  unit TEXT NOT NULL, scope TEXT NOT NULL, equality TEXT NOT NULL, design TEXT NOT NULL
) STRICT;
CREATE TABLE level(
  optimization TEXT NOT NULL REFERENCES optimization, position INTEGER NOT NULL,
  name TEXT NOT NULL, summary TEXT NOT NULL, span TEXT NOT NULL,
  PRIMARY KEY (optimization, position)
) STRICT;
CREATE TABLE also_compare(
  optimization TEXT NOT NULL REFERENCES optimization, position INTEGER NOT NULL,
  from_level TEXT NOT NULL, to_level TEXT NOT NULL,
  PRIMARY KEY (optimization, position)
) STRICT;
CREATE TABLE contrast(
  optimization TEXT NOT NULL REFERENCES optimization, position INTEGER NOT NULL,
  name TEXT NOT NULL, kind TEXT NOT NULL CHECK (kind IN ('main_effect', 'interaction')),
  PRIMARY KEY (optimization, position)
) STRICT;
CREATE TABLE contrast_term(
  optimization TEXT NOT NULL, contrast INTEGER NOT NULL, position INTEGER NOT NULL,
  from_level TEXT NOT NULL, to_level TEXT NOT NULL, weight REAL NOT NULL,
  PRIMARY KEY (optimization, contrast, position),
  FOREIGN KEY (optimization, contrast) REFERENCES contrast
) STRICT, WITHOUT ROWID;
CREATE TABLE claim(
  id TEXT PRIMARY KEY, position INTEGER NOT NULL, optimization TEXT NOT NULL REFERENCES optimization,
  from_level TEXT NOT NULL, to_level TEXT NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL,
  metric TEXT NOT NULL, lo REAL NOT NULL, hi REAL NOT NULL,
  conditions TEXT NOT NULL, unmet TEXT NOT NULL, requires_json TEXT NOT NULL, stages TEXT NOT NULL,
  lints TEXT NOT NULL, phases TEXT NOT NULL
) STRICT;
CREATE TABLE cell(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, optimization TEXT NOT NULL REFERENCES optimization,
  unit TEXT NOT NULL, config_json TEXT NOT NULL, rounds INTEGER NOT NULL, visit_steps INTEGER NOT NULL,
  discard_steps INTEGER NOT NULL, launches INTEGER NOT NULL, traced_rounds INTEGER NOT NULL,
  loss_seeds INTEGER NOT NULL, loss_rounds INTEGER NOT NULL, loss_steps INTEGER NOT NULL, loss_margin REAL NOT NULL,
  turns INTEGER NOT NULL, looks TEXT NOT NULL, loss_target REAL NOT NULL, energy_rounds INTEGER NOT NULL
) STRICT;
CREATE TABLE variant(
  id INTEGER PRIMARY KEY, cell INTEGER NOT NULL REFERENCES cell, name TEXT NOT NULL, level TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('reference', 'level', 'control')), config_json TEXT NOT NULL,
  environment TEXT NOT NULL, worker TEXT NOT NULL,
  UNIQUE (cell, name)
) STRICT;
CREATE TABLE step_cost(
  variant INTEGER PRIMARY KEY REFERENCES variant, tokens INTEGER NOT NULL, all_kernel_launches INTEGER NOT NULL
) STRICT;
CREATE TABLE operation_cost(
  variant INTEGER NOT NULL REFERENCES step_cost, position INTEGER NOT NULL, name TEXT NOT NULL,
  flops REAL NOT NULL, bytes REAL NOT NULL, kernel_launches INTEGER NOT NULL,
  peak TEXT NOT NULL CHECK (peak IN ('compute', 'fp32', 'fp8')),
  PRIMARY KEY (variant, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE note(
  position INTEGER PRIMARY KEY, cell TEXT NOT NULL, text TEXT NOT NULL
) STRICT;
CREATE TABLE calibration(
  utc TEXT NOT NULL, build TEXT NOT NULL, host TEXT NOT NULL, cpu TEXT NOT NULL, cores INTEGER NOT NULL,
  gpu TEXT NOT NULL, device TEXT NOT NULL, cell TEXT NOT NULL, preset TEXT NOT NULL, precision TEXT NOT NULL,
  unit_ns REAL NOT NULL, launches INTEGER NOT NULL,
  aa_effect REAL NOT NULL, aa_low REAL NOT NULL, aa_high REAL NOT NULL,
  aa_validity TEXT NOT NULL, aa_speed TEXT NOT NULL,
  planted_share REAL NOT NULL, planted_truth REAL NOT NULL,
  planted_effect REAL NOT NULL, planted_low REAL NOT NULL, planted_high REAL NOT NULL,
  planted_validity TEXT NOT NULL, planted_speed TEXT NOT NULL,
  PRIMARY KEY (host, cpu, cores, gpu, device, utc)
) STRICT;
CREATE TABLE launch(
  id INTEGER PRIMARY KEY, cell INTEGER NOT NULL REFERENCES cell,
  kind TEXT NOT NULL CHECK (kind IN ('parity', 'timed', 'memory', 'traced', 'loss', 'energy')),
  position INTEGER NOT NULL, attempt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'partial', 'failed')),
  reason TEXT NOT NULL, started_utc TEXT NOT NULL, ended_utc TEXT NOT NULL,
  build_order TEXT NOT NULL, rounds_planned INTEGER NOT NULL, steady INTEGER NOT NULL,
  build TEXT NOT NULL, libtorch TEXT NOT NULL, cuda TEXT NOT NULL, driver TEXT NOT NULL, gpu TEXT NOT NULL,
  gpu_uuid TEXT NOT NULL, host TEXT NOT NULL, boot TEXT NOT NULL, cpu TEXT NOT NULL, kernel TEXT NOT NULL,
  cores INTEGER NOT NULL, threads INTEGER NOT NULL, environment TEXT NOT NULL,
  repeats INTEGER REFERENCES launch
) STRICT;
CREATE TABLE visit(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, variant INTEGER NOT NULL REFERENCES variant,
  round INTEGER NOT NULL, position INTEGER NOT NULL, warmup INTEGER NOT NULL, steps INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL, device_ns INTEGER, tokens INTEGER NOT NULL, loss REAL, skipped_steps INTEGER NOT NULL,
  steal_share REAL, run_delay_share REAL, load1 REAL, voluntary_switches INTEGER, involuntary_switches INTEGER,
  sm_clock_mhz REAL, memory_clock_mhz REAL, power_w REAL, temperature_c REAL,
  throttle_reasons INTEGER, foreign_processes INTEGER, energy_j REAL,
  UNIQUE (launch, round, variant)
) STRICT;
CREATE TABLE sample(
  visit INTEGER NOT NULL REFERENCES visit, position INTEGER NOT NULL, ns INTEGER NOT NULL,
  PRIMARY KEY (visit, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE metric(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, variant INTEGER REFERENCES variant,
  path TEXT NOT NULL, unit TEXT NOT NULL, value REAL, detail TEXT NOT NULL
) STRICT;
CREATE TABLE gate(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, variant INTEGER NOT NULL REFERENCES variant,
  name TEXT NOT NULL, passed INTEGER NOT NULL, value REAL, bound REAL, detail TEXT NOT NULL
) STRICT;
CREATE TABLE meter(
  id INTEGER PRIMARY KEY, board TEXT NOT NULL, name TEXT NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL,
  UNIQUE (board, name)
) STRICT;
CREATE TABLE reading(
  launch INTEGER NOT NULL REFERENCES launch, time_ns INTEGER NOT NULL, meter INTEGER NOT NULL REFERENCES meter,
  value REAL NOT NULL,
  PRIMARY KEY (launch, time_ns, meter)
) STRICT, WITHOUT ROWID;
CREATE TABLE event(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, round INTEGER NOT NULL,
  utc TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
  variant INTEGER REFERENCES variant, cause TEXT NOT NULL
) STRICT;
)sql";

namespace {

constexpr SqliteMarks kMarks{
    kLedgerApplicationId, kLedgerSchema, "ledger", "run again into another directory"};

// ", as DIR" with the first results directory in `directory`, or "".
std::string results_in(const std::string& directory) {
  std::set<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (std::error_code none; std::filesystem::exists(entry.path() / kFileName, none))
      found.insert(entry.path().string());
  return found.empty() ? "" : ", as " + printable(*found.begin());
}

} // namespace

Error damaged(const std::string& path, const std::string& cause) {
  return damaged_file(path, kMarks, cause);
}

void check_pages(const Database& db) {
  if (const std::string fault = page_fault(db, true); !fault.empty())
    throw Failure(Failure::Kind::BadInput, damaged(db.path(), fault).message);
  Statement orphans = db.prepare("PRAGMA foreign_key_check");
  if (orphans.step())
    throw Failure(
        Failure::Kind::BadInput,
        damaged(
            db.path(),
            fmt::format("a row of {} belongs to no row of {}", orphans.text(0), orphans.text(2)))
            .message);
}

Result<bool> check_version(const std::string& path, std::int64_t version) {
  return check_schema(path, kMarks, version);
}

Result<bool> check_file(const std::string& path) {
  std::error_code error;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (std::filesystem::exists(directory, error) && !std::filesystem::is_directory(directory, error))
    return fail("{}: is {}; name the results directory{}",
                directory,
                std::filesystem::is_regular_file(directory, error) ? "a file" : "no directory",
                std::filesystem::path(directory).filename() == kFileName
                    ? fmt::format(" with it, {}",
                                  std::filesystem::absolute(directory).parent_path().string())
                    : "");
  for (const std::string& place : {directory, path})
    if (const std::string why = why_unreachable(place); !why.empty())
      return fail("{}: {}", directory, why);
  if (!std::filesystem::is_directory(directory, error))
    return fail("{}: no such directory; `assay run MATRIX --out {}` makes one",
                directory,
                shell_word(directory));
  if (!std::filesystem::exists(path, error))
    return fail(
        "{}: contains no {}, so it is not a results directory of Assay; name one that `assay run "
        "MATRIX --out DIR` made{}",
        directory,
        kFileName,
        results_in(directory));
  return check_sqlite_file(path, kMarks);
}

} // namespace assay::ledger_schema
