// Traces of other programs as traces of ours: what viewer, SQL, export and explain open. A copy in
// our format is written once, into the user's cache, and found again by the file's path, size and
// time.
#pragma once

#include <optional>
#include <string>

#include "core/result.h"

namespace assay {

// Whether the file at `path` looks like a trace that import_trace() reads, by its first bytes: JSON
// or gzip; or an SQLite export of Nsight Systems.
bool is_foreign_trace(const std::string& path);

struct ImportOptions {
  std::string steps; // find_steps(): the name of the spans that are steps
  std::string out;   // "": in the cache, where an earlier copy is taken
};

// The path of the copy. Errors name the file, the cause and the next action; nothing is left then.
Result<std::string> import_trace(const std::string& path, const ImportOptions& options = {});

// `path` itself, or the copy where it is foreign.
Result<std::string> readable_trace(const std::string& path);

} // namespace assay
