// What this program is.
#pragma once

#include <string>

namespace assay::cli {

// Generated (cmake/commit.cmake).
extern const char* const kCommit;     // 12 hex digits, or "unknown"
extern const char* const kCommitDate; // "2026-11-23", or ""

std::string build_name(); // the linker's build id, or "unknown"

// "assay 0.1.0 (commit 0123456789ab, build 0123456789ab)"
std::string version_line();

} // namespace assay::cli
