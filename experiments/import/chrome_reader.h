// Reads traces in the Chrome format: those of Kineto (torch.profiler, key "traceEvents" with
// categories "kernel", "cpu_op", "user_annotation" …; docs/traces.md), of `assay export`, and of
// any other program, whose slices become spans. Plain or gzip; streaming, so that the document is
// never in memory, only its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "experiments/import/imported_rows.h"

namespace assay {

// Errors name the file and the place: no JSON, cut off, no events.
Result<ImportedRows> read_chrome_trace(const std::string& path);

// "1700000000123456.789" microseconds to nanoseconds without rounding; nothing where it is no
// number, or beyond 64 bits.
std::optional<std::int64_t> nanoseconds_of(std::string_view microseconds);

} // namespace assay
