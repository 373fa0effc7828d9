// Board: one GPU of this machine as the monitor reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/result.h"
#include "profilers/machine/nvml_sampler.h"
#include "profilers/trace/telemetry_sampler.h"

namespace assay {

struct Board {
  GpuInfo info;
  std::vector<TelemetryMeter> meters;
  // Bytes of its memory by process number; nothing where the driver does not say. In a container
  // the numbers are of another namespace.
  std::function<std::map<int, std::int64_t>()> memory_of_processes;
};

// Every board that NVML sees, in its order; the error gives the reason if there is none.
Result<std::vector<Board>> open_boards(const NvmlApi& api);
Result<std::vector<Board>> open_boards();

} // namespace assay
