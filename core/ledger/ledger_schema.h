// The tables of `ledger.sqlite` (docs/ledger.md) and the marks by which the file is known.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"

namespace assay {
class Database;
}

namespace assay::ledger_schema {

inline constexpr const char* kFileName = "ledger.sqlite";
inline constexpr const char* kLockName = "ledger.lock";
// In a directory that `assay merge` has not finished: it is no results directory yet.
inline constexpr const char* kUnfinishedName = "merge.unfinished";

extern const char* const kTables; // CREATE TABLE statements of schema kLedgerSchema

// Whether the file at `path` carries our marks, by its first bytes alone. The error names what it
// is instead: missing, of another program, empty or cut off, of a newer schema.
Result<bool> check_file(const std::string& path);
// The same for a version that was read through SQLite (it may be in the WAL only).
Result<bool> check_version(const std::string& path, std::int64_t version);

// Throws Failure (bad input) unless SQLite finds every page and index in order and every row
// belongs to a row that is there.
void check_pages(const Database& db);

Error damaged(const std::string& path, const std::string& cause);

} // namespace assay::ledger_schema
