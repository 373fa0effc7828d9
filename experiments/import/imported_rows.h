// What a reader of another program's trace gives: rows as our collectors make them, and what the
// file says of itself. Times are nanoseconds of whatever clock the file has.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/trace.h"

namespace assay {

struct ImportedRows {
  TraceBatch rows;
  std::vector<std::string> names{""}; // by NameId
  std::string source;                 // "Kineto JSON", "Chrome JSON", "Nsight Systems SQLite"
  std::vector<std::pair<std::string, std::string>> info; // "gpu", "rank" …
  std::int64_t base_utc_ns = 0; // what the times count from; 0: they are of no known clock
  std::int64_t left_out = 0;    // events of kinds that have no table here: counters, async slices

  const std::string& name(NameId id) const { return names[id]; }
};

} // namespace assay
