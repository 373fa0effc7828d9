// Trace rows: what the collectors of one traced launch saw, as plain data, written by TraceWriter
// and read by read_trace() (core/trace/trace_file.h). One file contains one launch, rank and
// variant, in the tables, columns, units and ids of Nsight Systems' SQLite export (docs/traces.md),
// ours with the prefix ASSAY_.
//
// Times: collectors use CLOCK_REALTIME nanoseconds (CUPTI's default clock on Linux); files use
// nanoseconds since the session start, which TARGET_INFO_SESSION_START_TIME states as UTC. A zero
// start or end means that the source lost the time stamp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace assay {

using NameId = std::uint32_t; // index into the names of a writer, or of a Trace; 0 is ""

// CUPTI_ACTIVITY_KIND_KERNEL
struct KernelRow {
  std::int64_t start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  NameId demangled = 0, short_name = 0, mangled = 0;
  std::uint32_t registers_per_thread = 0;
  std::array<std::int32_t, 3> grid{}, block{}, cluster{};
  std::int32_t static_shared_bytes = 0, dynamic_shared_bytes = 0, shared_executed_bytes = 0;
  std::uint32_t local_bytes_per_thread = 0;
  std::uint64_t local_bytes_total = 0;
  std::int64_t grid_id = 0;
  std::uint64_t graph_node = 0; // 0: not from a CUDA graph
  std::uint32_t graph = 0;
  std::uint8_t launch_type = 0, cache_config = 0;
};

// CUPTI_ACTIVITY_KIND_MEMCPY; kinds as in ENUM_CUDA_MEMCPY_OPER (1 HtoD, 2 DtoH, 8 DtoD, 10 PtoP)
struct CopyRow {
  std::int64_t start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint64_t bytes = 0;
  std::uint8_t copy_kind = 0, src_kind = 0, dst_kind = 0;
  std::uint64_t graph_node = 0;
  std::int32_t src_device = -1, dst_device = -1; // peer copies only
};

// CUPTI_ACTIVITY_KIND_MEMSET
struct SetRow {
  std::int64_t start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint64_t bytes = 0;
  std::uint32_t value = 0;
  std::uint8_t memory_kind = 0;
  std::uint64_t graph_node = 0;
};

// CUPTI_ACTIVITY_KIND_RUNTIME: runtime calls (event class 0) and driver calls (1)
struct ApiRow {
  std::int64_t start = 0, end = 0;
  std::uint8_t event_class = 0;
  std::int64_t global_tid = 0;
  std::uint32_t correlation = 0;
  NameId name = 0; // "cudaLaunchKernel_v7000" as CUPTI names it, without the version suffix
  std::uint32_t return_value = 0;
};

// CUPTI_ACTIVITY_KIND_SYNCHRONIZATION; type 1 event, 2 stream wait event, 3 stream, 4 context
struct SyncRow {
  std::int64_t start = 0, end = 0;
  std::uint32_t device = 0, context = 0, stream = 0, correlation = 0;
  std::uint8_t sync_type = 0;
  std::uint32_t event_id = 0;
};

// PROFILER_OVERHEAD: time that CUPTI spent for itself
struct OverheadRow {
  std::int64_t start = 0, end = 0;
  std::int64_t global_tid = 0;
  NameId name = 0;
  std::uint32_t type = 0; // ENUM_CUPTI_OVERHEAD_TYPE
};

// NVTX_EVENTS; our own Spans have domain "assay". Event type 59 push/pop, 60 start/end, 34 mark
struct RangeRow {
  std::int64_t start = 0, end = 0; // end is 0 for a mark
  std::uint8_t event_type = 59;
  std::int64_t global_tid = 0;
  NameId text = 0, domain = 0;
};

// ASSAY_OPERATOR: one call of a LibTorch operator (RecordFunction)
struct OperatorRow {
  std::int64_t start = 0, end = 0;
  std::int64_t global_tid = 0;
  NameId name = 0;
  std::int64_t sequence = -1;      // autograd's number that joins forward and backward; -1: none
  std::int64_t forward_thread = 0; // LibTorch's id of the forward's thread, of a backward operator
  bool backward = false;
};

// ASSAY_STEP: one unit (train step or evaluation) on the main thread
struct StepRow {
  std::int64_t step = 0; // from 0, over the file
  std::int64_t start = 0, end = 0;
  int round = 0;       // the launch's round; both variants of one round make a pair
  int position = 0;    // unit within the visit, from 0
  bool counted = true; // false: warm-up rounds and a visit's discarded units
  std::int64_t tokens = 0;
  std::int64_t global_tid = 0; // the thread that ran it
};

// GPU_METRICS: one sample of one series
struct TelemetryRow {
  std::int64_t time = 0;
  NameId metric = 0; // name of a TelemetrySeries
  double value = 0;
};

// TARGET_INFO_GPU_METRICS: a requested series; status names what the machine refused
struct TelemetryMetric {
  std::string name;          // "SM clock [MHz]": the unit is in brackets
  std::string source;        // "NVML", "HOST"
  std::string status = "ok"; // "ok", or "not permitted: …", "not supported: …"
};

// ASSAY_AUDIT: one check of the trace itself
struct AuditRow {
  std::string check; // "lost_records", "clamped_times", "clock_steps", "launch_after_kernel", …
  double value = 0, limit = 0;
  bool passed = true;
  std::string detail; // what it means for what rests on the trace
};

// What a collector hands over at a time. Names are ids of the TraceWriter that will store it.
struct TraceBatch {
  std::vector<KernelRow> kernels;
  std::vector<CopyRow> copies;
  std::vector<SetRow> sets;
  std::vector<ApiRow> api;
  std::vector<SyncRow> syncs;
  std::vector<OverheadRow> overhead;
  std::vector<RangeRow> ranges;
  std::vector<OperatorRow> operators;
  std::vector<StepRow> steps;
  std::vector<TelemetryRow> telemetry;

  void clear();
};

// ---- Reading: what analysis, export and viewer work on ----

enum class DeviceKind : std::uint8_t { Kernel, Copy, Set };

struct DeviceEvent { // on a stream of a GPU
  std::int64_t start = 0, end = 0;
  NameId name = 0; // kernels: the demangled name; copies: "Memcpy HtoD" …; sets: "Memset"
  std::uint32_t correlation = 0;
  std::uint32_t stream = 0;
  std::uint16_t device = 0;
  DeviceKind kind = DeviceKind::Kernel;
  std::uint8_t copy_kind = 0;
  bool graph = false;     // a node of a CUDA graph: its launch is the graph's
  std::int64_t bytes = 0; // copies and sets
};

enum class HostKind : std::uint8_t { Api, Sync, Span, Operator, Overhead };

struct HostEvent { // on a thread of the host
  std::int64_t start = 0, end = 0;
  NameId name = 0;
  std::uint32_t correlation = 0; // API and synchronization
  std::uint16_t thread = 0;      // index into Trace::threads
  std::uint16_t depth = 0;       // spans and operators: how many of the same kind enclose it
  HostKind kind = HostKind::Api;
  bool backward = false;      // operators
  NameId domain = 0;          // spans: NVTX domain
  std::int64_t sequence = -1; // operators
};

struct TelemetrySeries {
  TelemetryMetric metric;
  std::vector<std::int64_t> time;
  std::vector<double> value;
};

// One trace file in memory; every list is ordered by start.
struct Trace {
  std::string path;
  std::vector<std::pair<std::string, std::string>>
      info; // ASSAY_RUN: launch, cell, variant, device …
  std::vector<std::string> names;
  std::vector<std::int64_t> threads; // globalTid
  std::int64_t session_start_utc_ns = 0;
  std::vector<StepRow> steps;
  std::vector<DeviceEvent> device;
  std::vector<HostEvent> api, syncs, spans, operators, overhead;
  std::vector<TelemetrySeries> telemetry;
  std::vector<AuditRow> audit;

  const std::string& name(NameId id) const { return names[id]; }
  std::string value(const std::string& key) const; // of info, or ""
  bool on_gpu() const;                             // the launch ran on a GPU
};

// globalTid of Nsight Systems: hw << 56 | vm << 48 | pid << 24 | tid.
constexpr std::int64_t global_tid(std::int64_t pid, std::int64_t tid) {
  return pid << 24 | tid;
}
constexpr std::int64_t pid_of(std::int64_t global_tid) {
  return global_tid / 0x1000000 % 0x1000000;
}
constexpr std::int64_t tid_of(std::int64_t global_tid) {
  return global_tid % 0x1000000;
}

} // namespace assay
