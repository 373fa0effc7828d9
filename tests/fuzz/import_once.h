// What both fuzzers of imports do with a file.
#pragma once

#include <filesystem>
#include <string>

#include "core/trace/trace_file.h"
#include "experiments/attribution/tiling.h"
#include "experiments/import/import_trace.h"
#include "tests/fuzz/input.h"

namespace assay::fuzz {

inline void import_once(const std::string& path) {
  static const std::string copy = folder() / "copy.sqlite";
  try_to([&] {
    std::error_code ignored;
    std::filesystem::remove(copy, ignored);
    const Result<std::string> made = import_trace(path, {"", copy});
    if (!made) return made;
    const Result<Trace> trace = read_trace(*made);
    if (!trace) std::abort(); // what we write we must be able to read
    tile_trace(*trace);
    return made;
  });
}

} // namespace assay::fuzz
