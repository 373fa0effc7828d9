#include "core/ledger_schema.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "core/ledger.h"

namespace assay::ledger_schema {

const char* const kTables = R"sql(
CREATE TABLE spec(
  id INTEGER PRIMARY KEY CHECK (id = 1),
  hash TEXT NOT NULL, name TEXT NOT NULL, seed INTEGER NOT NULL,
  matrix_toml TEXT NOT NULL, plan_json TEXT NOT NULL, command TEXT NOT NULL, created_utc TEXT NOT NULL,
  launches INTEGER NOT NULL, alpha REAL NOT NULL, sesoi REAL NOT NULL, power REAL NOT NULL
) STRICT;
CREATE TABLE optimization(
  name TEXT PRIMARY KEY, position INTEGER NOT NULL, summary TEXT NOT NULL, equivalence TEXT NOT NULL,
  unit TEXT NOT NULL, scope TEXT NOT NULL, equality TEXT NOT NULL
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
CREATE TABLE claim(
  id TEXT PRIMARY KEY, position INTEGER NOT NULL, optimization TEXT NOT NULL REFERENCES optimization,
  from_level TEXT NOT NULL, to_level TEXT NOT NULL, text TEXT NOT NULL, source TEXT NOT NULL,
  metric TEXT NOT NULL, lo REAL NOT NULL, hi REAL NOT NULL,
  conditions TEXT NOT NULL, unmet TEXT NOT NULL, requires_json TEXT NOT NULL
) STRICT;
CREATE TABLE cell(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, optimization TEXT NOT NULL REFERENCES optimization,
  unit TEXT NOT NULL, config_json TEXT NOT NULL, rounds INTEGER NOT NULL, visit_steps INTEGER NOT NULL,
  discard_steps INTEGER NOT NULL, launches INTEGER NOT NULL
) STRICT;
CREATE TABLE variant(
  id INTEGER PRIMARY KEY, cell INTEGER NOT NULL REFERENCES cell, name TEXT NOT NULL, level TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('reference', 'level', 'control')), config_json TEXT NOT NULL,
  UNIQUE (cell, name)
) STRICT;
CREATE TABLE launch(
  id INTEGER PRIMARY KEY, cell INTEGER NOT NULL REFERENCES cell,
  kind TEXT NOT NULL CHECK (kind IN ('parity', 'timed', 'memory')),
  position INTEGER NOT NULL, attempt INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'complete', 'partial', 'failed')),
  reason TEXT NOT NULL, started_utc TEXT NOT NULL, ended_utc TEXT NOT NULL,
  build_order TEXT NOT NULL, rounds_planned INTEGER NOT NULL, steady INTEGER NOT NULL,
  build TEXT NOT NULL, libtorch TEXT NOT NULL, cuda TEXT NOT NULL, driver TEXT NOT NULL, gpu TEXT NOT NULL,
  gpu_uuid TEXT NOT NULL, host TEXT NOT NULL, boot TEXT NOT NULL, cpu TEXT NOT NULL, kernel TEXT NOT NULL,
  cores INTEGER NOT NULL, threads INTEGER NOT NULL, environment TEXT NOT NULL
) STRICT;
CREATE TABLE visit(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, variant INTEGER NOT NULL REFERENCES variant,
  round INTEGER NOT NULL, position INTEGER NOT NULL, warmup INTEGER NOT NULL, steps INTEGER NOT NULL,
  wall_ns INTEGER NOT NULL, device_ns INTEGER, tokens INTEGER NOT NULL, loss REAL, skipped_steps INTEGER NOT NULL,
  steal_share REAL, run_delay_share REAL, load1 REAL, voluntary_switches INTEGER, involuntary_switches INTEGER,
  sm_clock_mhz REAL, memory_clock_mhz REAL, power_w REAL, temperature_c REAL,
  throttle_reasons INTEGER, foreign_processes INTEGER,
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
CREATE TABLE event(
  id INTEGER PRIMARY KEY, launch INTEGER NOT NULL REFERENCES launch, round INTEGER NOT NULL,
  utc TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
)sql";

namespace {

constexpr std::size_t kHeaderBytes = 100;
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

std::int64_t big_endian(const std::array<char, kHeaderBytes>& header, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<unsigned char>(header[offset + i]);
  return value;
}

// SQLite itself does not miss the end of the last page. With a WAL the file may be behind its
// header for a moment, and SQLite takes the pages from there.
Result<bool> check_length(const std::string& path, const std::array<char, kHeaderBytes>& header) {
  std::error_code error;
  if (const auto wal = std::filesystem::file_size(path + "-wal", error); !error && wal > 0)
    return true;
  const std::int64_t stored = big_endian(header, 16) >> 16;
  const std::int64_t page = stored == 1 ? 65536 : stored;
  const std::int64_t pages = big_endian(header, 28);
  const bool count_is_valid = big_endian(header, 24) == big_endian(header, 92);
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
  if (!error && count_is_valid && size < page * pages)
    return damaged(path, fmt::format("cut off after {} of {} bytes", size, page * pages));
  return true;
}

} // namespace

Error damaged(const std::string& path, const std::string& cause) {
  return fail("{}: this ledger is damaged ({}); restore it from a copy, or run again into another "
              "directory",
              path,
              cause);
}

Result<bool> check_version(const std::string& path, std::int64_t version) {
  if (version > kLedgerSchema)
    return fail("{}: its schema {} is newer than this build reads ({}); use the Assay that wrote "
                "it, or a newer one",
                path,
                version,
                kLedgerSchema);
  if (version < 1) return damaged(path, fmt::format("schema number {}", version));
  return true;
}

Result<bool> check_file(const std::string& path) {
  std::error_code error;
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (!std::filesystem::is_directory(directory, error))
    return fail(
        "{}: no such directory; `assay run MATRIX --out {}` makes one", directory, directory);
  if (!std::filesystem::exists(path, error))
    return fail("{}: holds no {}, so it is not a results directory of Assay", directory, kFileName);
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail("{}: cannot be opened for reading; check its permissions", path);
  std::array<char, kHeaderBytes> header{};
  file.read(header.data(), header.size());
  const auto size = static_cast<std::size_t>(file.gcount());
  if (size == 0) return damaged(path, "the file is empty");
  if (std::string_view(header.data(), std::min(size, kMagic.size())) != kMagic.substr(0, size))
    return fail("{}: not an Assay ledger (it is no SQLite file)", path);
  if (size < kHeaderBytes) return damaged(path, fmt::format("cut off after {} bytes", size));
  if (big_endian(header, 68) != kApplicationId)
    return fail("{}: not an Assay ledger (an SQLite file of another program)", path);
  if (Result<bool> whole = check_length(path, header); !whole) return whole;
  return check_version(path, big_endian(header, 60));
}

} // namespace assay::ledger_schema
