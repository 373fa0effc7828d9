// DeviceCollector: the part of a TraceSession that watches the GPU. It is an interface so that the
// session, its tests and the builds without CUDA headers need no CUPTI.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/trace/trace.h"

namespace assay {

class TraceWriter;
struct CollectSet;

// What a collector noticed about its own records, summed over a session.
struct DeviceCounters {
  std::int64_t dropped = 0;         // records that CUPTI could not store
  std::int64_t dropped_buffers = 0; // whole buffers beyond the memory limit
  std::int64_t invalid = 0;         // buffers with a record of unknown shape: their tail is lost
  std::int64_t unknown_kinds = 0;   // records that nobody asked for
  std::optional<double> clock_error_ns; // bound of |CUPTI's clock - CLOCK_REALTIME|
  std::int64_t refused = 0; // calls that CUPTI refused: something that was asked for is missing
  std::string note;         // which calls, and CUPTI's words for why
};

class DeviceCollector {
public:
  virtual ~DeviceCollector() = default;
  virtual void enable() = 0;  // from here on the GPU is watched
  virtual void disable() = 0; // all kinds off
  // Takes back every buffer; the device is drained. Any thread.
  virtual void flush() = 0;
  // Turns completed buffers into rows with the writer's names. The writer thread only.
  virtual void drain(TraceWriter& names, TraceBatch& into) = 0;
  virtual void forget_names() = 0; // another writer comes next
  virtual DeviceCounters counters() const = 0;
  virtual std::string version() const = 0; // of the library: "130001"
};

// CUPTI's Activity API; its destructor detaches CUPTI from the process. Completed buffers beyond
// `memory_limit_bytes` are dropped and counted. Errors: no library, another version, another
// profiler uses it, a build without CUDA.
Result<std::unique_ptr<DeviceCollector>> open_device_collector(const CollectSet& collect,
                                                               std::size_t memory_limit_bytes);

} // namespace assay
