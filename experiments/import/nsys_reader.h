// Reads SQLite exports of Nsight Systems (`nsys export --type sqlite`, or `nsys stats`). Columns
// that a version's schema lacks are taken as not known; docs/traces.md lists those that are read.
#pragma once

#include <string>

#include "core/result.h"
#include "experiments/import/imported_rows.h"

namespace assay {

// Whether the SQLite file has tables of such an export, and is no trace of ours.
bool is_nsys_export(const std::string& path);

// Ranges of PyTorch's emit_nvtx ("aten::add, seq = 7") become operators. Errors name the file.
Result<ImportedRows> read_nsys_export(const std::string& path);

} // namespace assay
