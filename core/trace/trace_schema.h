// The tables of a trace file (docs/traces.md): those of Nsight Systems' SQLite export, and ours
// with the prefix ASSAY_.
#pragma once

#include <string>

#include "core/result.h"
#include "core/sqlite/database.h"
#include "core/sqlite/sqlite_file.h"

namespace assay::trace_schema {

inline constexpr const char* kUnfinishedSuffix = ".part";

// Whether a file of this name is a trace that was never finished, or what SQLite wrote beside it.
bool is_unfinished(const std::string& file_name);

extern const char* const kTables;  // CREATE TABLE statements of schema kTraceSchema
extern const char* const kEnums;   // the rows of the ENUM_ tables, and what is constant beside them
extern const char* const kIndexes; // made after the rows are in

const SqliteMarks& marks();

// Whether the file at `path` is a finished trace that this build reads, by its first bytes alone.
Result<bool> check_file(const std::string& path);

Error damaged(const std::string& path, const std::string& cause);

// Throws Failure where the pages of the open file are not in order; reads all of it.
void check_pages(const Database& db);

} // namespace assay::trace_schema
