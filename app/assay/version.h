// What this program is.
#pragma once

#include <string>

namespace assay::cli {

extern const char* const kCommit; // 12 hex digits, or "unknown"; generated (cmake/commit.cmake)

std::string build_name(); // the linker's build id, or "unknown"

// "assay 0.1.0 (commit 0123456789ab, build 0123456789ab)"
std::string version_line();

} // namespace assay::cli
