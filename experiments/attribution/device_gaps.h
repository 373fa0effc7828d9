// Device gaps: the longest intervals of a trace in which a GPU had nothing to do. One query, that
// `assay sql --name gaps` runs as well.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace assay {

// Longest first; at most 1000 rows. The columns are those of DeviceGap, after the gap's length.
extern const char* const kDeviceGapsQuery;

struct DeviceGap {
  std::int64_t start = 0, end = 0; // ns since the session start
  std::uint32_t device = 0;
  std::optional<std::int64_t> step; // ASSAY_STEP in which it begins
  std::string after, before;        // what ran: a kernel's short name, "Memcpy …" or "Memset"
};

// Of a trace that read_trace() accepts; empty where no device was recorded. Some seconds for each
// million kernels; `stop` ends it soon after it was set, with an error.
Result<std::vector<DeviceGap>> device_gaps(const std::string& path,
                                           const std::atomic<bool>* stop = nullptr);

} // namespace assay
