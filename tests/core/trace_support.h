// A small trace with something of every kind, and a directory for it.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "core/trace/trace_file.h"

namespace assay::test {

inline constexpr std::int64_t kEpoch = 1'763'700'000'000'000'000; // session start
inline constexpr std::int64_t kThread = global_tid(4242, 4243);
inline constexpr std::int64_t kBackwardThread = global_tid(4242, 4250);

class TraceDirectory {
public:
  TraceDirectory() {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() /
            fmt::format("assay-trace-{}-{}", ::getpid(), count++);
    std::filesystem::create_directories(path_);
  }
  ~TraceDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string string() const { return path_.string(); }

private:
  std::filesystem::path path_;
};

inline KernelRow
kernel(std::int64_t start, std::int64_t end, NameId name, std::uint32_t correlation) {
  KernelRow row;
  row.start = kEpoch + start;
  row.end = kEpoch + end;
  row.context = 1;
  row.stream = 7;
  row.correlation = correlation;
  row.demangled = row.short_name = name;
  row.registers_per_thread = 32;
  row.grid = {1024, 2, 3};
  row.block = {256, 1, 1};
  row.grid_id = 99;
  return row;
}

// Two steps of one thread, each a span "forward" with a span "attention" and two operators in it, a
// launch and its kernel, a copy, a set, a wait; telemetry and an audit.
inline TraceBatch small_batch(TraceWriter& writer, std::vector<TelemetryMetric>& metrics) {
  TraceBatch batch;
  const NameId gemm = writer.intern("void gemm<float>(float*)"),
               launch = writer.intern("cudaLaunchKernel"),
               wait = writer.intern("cudaStreamSynchronize"), forward = writer.intern("forward"),
               attention = writer.intern("attention"), domain = writer.intern("assay"),
               linear = writer.intern("aten::linear"), addmm = writer.intern("aten::addmm"),
               flush = writer.intern("Buffer flush"), power = writer.intern("power [W]");
  metrics = {{"power [W]", "NVML", "ok"}, {"energy [J]", "NVML", "not permitted: no rights"}};
  for (int step = 0; step < 2; ++step) {
    const std::int64_t at = 1000 + step * 10'000, now = kEpoch + at;
    const auto correlation = static_cast<std::uint32_t>(10 * step);
    batch.steps.push_back({step, now, now + 9000, step, 0, step > 0, 512, kThread});
    batch.kernels.push_back(kernel(at + 500, at + 2500, gemm, correlation + 1));
    batch.copies.push_back(
        {now + 100, now + 200, 0, 1, 7, correlation + 2, 4096, 1, 1, 2, 0, -1, -1});
    batch.sets.push_back({now + 250, now + 260, 0, 1, 7, correlation + 3, 64, 0, 2, 0});
    batch.api.push_back({now + 300, now + 320, 0, kThread, correlation + 1, launch, 0});
    batch.api.push_back({now + 2400, now + 2600, 0, kThread, correlation + 4, wait, 0});
    batch.syncs.push_back({now + 2410, now + 2590, 0, 1, 7, correlation + 4, 3, 0});
    batch.overhead.push_back({now + 50, now + 60, kThread, flush, 1u << 16});
    batch.ranges.push_back({now + 350, now + 900, 59, kThread, attention, domain});
    batch.ranges.push_back({now + 20, now + 4000, 59, kThread, forward, domain});
    batch.ranges.push_back({now + 5000, 0, 34, kThread, forward, 0});
    batch.operators.push_back({now + 25, now + 890, kThread, linear, 5, 0, false});
    batch.operators.push_back({now + 40, now + 880, kThread, addmm, -1, 0, false});
    batch.operators.push_back({now + 5000, now + 6000, kBackwardThread, addmm, 5, 1, true});
    batch.telemetry.push_back({now, power, 312.5 + step});
  }
  return batch;
}

inline std::string write_small_trace(const std::string& path) {
  TraceWriter writer(path, kEpoch);
  std::vector<TelemetryMetric> metrics;
  writer.append(small_batch(writer, metrics));
  writer.set_telemetry_metrics(metrics);
  writer.set_info("variant", "varlen");
  writer.set_info("device", "cuda:0");
  writer.set_info("gpu", "NVIDIA H200");
  writer.add_audit(
      {{"lost_records", 0, 0, true, "none"}, {"coverage", 0.4, 0.9, false, "too little"}});
  writer.add_diagnostic(kEpoch + 5, 2, "clock stepped");
  writer.finish();
  return path;
}

} // namespace assay::test
