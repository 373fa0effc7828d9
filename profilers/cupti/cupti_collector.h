// The GPU's collector over a given CUPTI: the driver's own, or a test's.
#pragma once

#include <memory>

#include "core/result.h"
#include "profilers/cupti/cupti_api.h"
#include "profilers/trace/device_collector.h"
#include "profilers/trace/trace_session.h"

namespace assay {

// Registers CUPTI's callbacks. One at a time in a process.
Result<std::unique_ptr<DeviceCollector>>
make_cupti_collector(CuptiApi api, const CollectSet& collect, std::size_t memory_limit_bytes);

} // namespace assay
