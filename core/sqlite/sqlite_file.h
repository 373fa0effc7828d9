// SqliteFile: what our SQLite files (ledger and traces) have in common: how one is distinguished
// from a missing, empty, cut off, foreign or newer file by its first bytes alone, and how it is
// made durable.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"

namespace assay {

// The marks of one kind of file, and how its messages call it.
struct SqliteMarks {
  std::int32_t application_id = 0;
  std::int64_t newest_schema = 0; // that this build reads; schemas count from 1 (user_version)
  const char* kind = "";          // "ledger"
  const char* remedy = "";        // what to do about a damaged one, besides restoring a copy
};

inline constexpr std::int32_t kLedgerApplicationId = 0x41535359; // "ASSY"
inline constexpr std::int32_t kTraceApplicationId = 0x41535452;  // "ASTR"

// Whether a file is there that begins like any SQLite file; unreadable ones are none.
bool is_sqlite_file(const std::string& path);

// Whether the existing file at `path` carries the marks. The error names what it is instead.
Result<bool> check_sqlite_file(const std::string& path, const SqliteMarks& marks);
// The same for a schema number that was read through SQLite.
Result<bool> check_schema(const std::string& path, const SqliteMarks& marks, std::int64_t schema);

Error damaged_file(const std::string& path, const SqliteMarks& marks, const std::string& cause);

// Throw Failure where the file system refuses.
void sync_file(const std::string& path);
void sync_directory(const std::string& directory);

} // namespace assay
