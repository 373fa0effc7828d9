// TraceSession: everything that is recorded during one traced launch. It owns the collectors
// (spans, operators, CUPTI, telemetry) and one writer thread that puts what they saw into one trace
// file per variant. Between begin_visit() and end_visit() nothing here allocates, takes a lock that
// another thread locks for long, or touches a disk on the caller's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "core/trace/trace.h"

namespace assay {

class DeviceCollector;

// What a traced launch records besides spans and steps. CUPTI's driver, synchronization and
// overhead records are left out by default: they slow every launch, and the waiting calls are among
// the API records anyway (docs/decisions.md).
struct CollectSet {
  bool operators = true;                          // LibTorch's; the caller records them
  bool kernels = true, copies = true, api = true; // api: the runtime's launches, copies and waits
  bool driver = false, synchronization = false, overhead = false;
  bool telemetry = true;
};

struct TraceOptions {
  std::vector<std::string> paths; // one per variant; TraceWriter's rules
  bool cuda = false;              // collect from CUPTI and NVML; false: host only
  CollectSet collect;
  std::string gpu_uuid; // the board for NVML; "" the first
  double telemetry_hz = 20;
  std::size_t ring_events = 1 << 18; // host events per thread that may wait for the writer
  // Of completed CUPTI buffers that wait for the writer; beyond it buffers are dropped and audited.
  std::size_t memory_limit_bytes = std::size_t{256} << 20;
  // Opens the GPU's collector; empty: CUPTI's. Tests put their own here.
  std::function<Result<std::unique_ptr<DeviceCollector>>()> open_device;
  std::function<std::int64_t()> clock_offset; // CLOCK_REALTIME - CLOCK_MONOTONIC; empty: measured
};

// Nanoseconds of the clock of all traces (CLOCK_REALTIME).
std::int64_t trace_now();

class TraceSession : public SpanSink {
public:
  // Starts the collectors and the writer. Errors name what is missing (CUPTI library, another
  // profiler in this process, a directory that cannot be written). What the machine only refuses
  // (NVML, RAPL) is no error: it becomes the status of its telemetry series.
  static Result<std::unique_ptr<TraceSession>> start(const TraceOptions& options);
  ~TraceSession() override; // without finish(): stops collecting and removes unfinished files

  // Rows from here on belong to `variant` (index into paths).
  void begin_visit(std::size_t variant, int round, bool warmup);
  // One unit of the visit has run from `start` to `end` (trace_now()) on the calling thread.
  void step(std::int64_t start, std::int64_t end, bool counted, std::int64_t tokens);
  // The device must be drained. Takes the rest of CUPTI's records; rows of this visit are complete.
  void end_visit();

  // SpanSink: our Spans, also emitted as NVTX ranges. Any thread.
  void begin(const char* name) override;
  void end(const char* name) override;
  void count(const char* name, std::int64_t amount) override;

  // LibTorch's operators. Any thread, properly nested on each. `name` is copied on first sight.
  void operator_begin(std::string_view name,
                      std::int64_t sequence,
                      std::int64_t forward_thread,
                      bool backward);
  void operator_end();

  void set_info(const std::string& key, const std::string& value); // into every file (ASSAY_RUN)
  void set_info(std::size_t variant, const std::string& key, const std::string& value);

  struct Summary {
    std::int64_t rows = 0, lost = 0;
    std::vector<std::vector<AuditRow>> audit; // by variant
  };
  // Stops collecting (all kinds off), writes the audit, finishes the files. The error of the writer
  // thread (a full disk) surfaces here, by name.
  Result<Summary> finish();

private:
  TraceSession();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace assay
