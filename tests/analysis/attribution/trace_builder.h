// Hand-made traces for tests of attribution: times in microseconds, thread 1 runs the steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/trace.h"

namespace assay::synthetic {

inline constexpr std::int64_t kMain = global_tid(10, 1), kAutograd = global_tid(10, 2);
inline constexpr std::int64_t kMicro = 1000;

class TraceBuilder {
public:
  explicit TraceBuilder(const std::string& variant = "a", bool gpu = false) {
    trace_.path = variant + ".sqlite";
    trace_.names = {""};
    trace_.threads = {kMain, kAutograd};
    trace_.info = {{"cell", "cell"}, {"device", gpu ? "cuda" : "cpu"}, {"variant", variant}};
  }

  void step(std::int64_t start, std::int64_t end, int round, int position, bool counted = true) {
    StepRow row;
    row.step = static_cast<std::int64_t>(trace_.steps.size());
    row.start = start * kMicro;
    row.end = end * kMicro;
    row.round = round;
    row.position = position;
    row.counted = counted;
    row.global_tid = kMain;
    trace_.steps.push_back(row);
  }
  void span(std::string_view name, std::int64_t start, std::int64_t end, int thread = 0) {
    trace_.spans.push_back(host(HostKind::Span, name, start, end, thread));
    trace_.spans.back().domain = id("assay");
  }
  void foreign_range(std::string_view name, std::int64_t start, std::int64_t end) {
    trace_.spans.push_back(host(HostKind::Span, name, start, end, 0));
    trace_.spans.back().domain = id("somebody else");
  }
  void op(std::string_view name, std::int64_t start, std::int64_t end, int depth, int thread = 0) {
    trace_.operators.push_back(host(HostKind::Operator, name, start, end, thread));
    trace_.operators.back().depth = static_cast<std::uint16_t>(depth);
  }
  void call(std::string_view name,
            std::int64_t start,
            std::int64_t end,
            std::uint32_t correlation = 0,
            int thread = 0) {
    trace_.api.push_back(host(HostKind::Api, name, start, end, thread));
    trace_.api.back().correlation = correlation;
  }
  // A launch at `launch` (1 us long) and what it started.
  void kernel(std::string_view name,
              std::int64_t launch,
              std::int64_t start,
              std::int64_t end,
              std::uint32_t stream = 7,
              int thread = 0) {
    call("cudaLaunchKernel", launch, launch + 1, ++correlation_, thread);
    device(DeviceKind::Kernel, name, start, end, stream);
  }
  void copy(std::uint8_t kind,
            std::int64_t launch,
            std::int64_t start,
            std::int64_t end,
            std::uint32_t stream = 8) {
    call("cudaMemcpyAsync", launch, launch + 1, ++correlation_);
    device(DeviceKind::Copy, kind == 1 ? "Memcpy HtoD" : "Memcpy DtoD", start, end, stream);
    trace_.device.back().copy_kind = kind;
  }
  // A replay of a CUDA graph: one launch, and kernels of 10 us each from `start` on.
  void replay(std::int64_t launch, std::int64_t start, const std::vector<std::string_view>& nodes) {
    call("cudaGraphLaunch", launch, launch + 1, ++correlation_);
    for (const std::string_view name : nodes) {
      device(DeviceKind::Kernel, name, start, start + 10, 7);
      trace_.device.back().graph = true;
      start += 10;
    }
  }
  void info(const std::string& key, const std::string& value) {
    trace_.info.emplace_back(key, value);
  }
  void unlaunched(std::string_view name, std::int64_t start, std::int64_t end) {
    device(DeviceKind::Kernel, name, start, end, 7);
    trace_.device.back().correlation = 999'999;
  }
  void audit(const std::string& check, double value, double limit, bool passed) {
    trace_.audit.push_back({check, value, limit, passed, "what it means"});
  }

  Trace take() { // every list ordered by start, as the reader gives them
    const auto order = [](auto& list) {
      std::stable_sort(list.begin(), list.end(), [](const auto& x, const auto& y) {
        return x.start != y.start ? x.start < y.start : x.end > y.end;
      });
    };
    order(trace_.steps);
    order(trace_.device);
    for (auto* list : {&trace_.api, &trace_.spans, &trace_.operators}) order(*list);
    return std::move(trace_);
  }

private:
  NameId id(std::string_view name) {
    const auto found = std::find(trace_.names.begin(), trace_.names.end(), name);
    if (found != trace_.names.end()) return static_cast<NameId>(found - trace_.names.begin());
    trace_.names.emplace_back(name);
    return static_cast<NameId>(trace_.names.size() - 1);
  }
  HostEvent
  host(HostKind kind, std::string_view name, std::int64_t start, std::int64_t end, int thread) {
    HostEvent event;
    event.start = start * kMicro;
    event.end = end * kMicro;
    event.name = id(name);
    event.thread = static_cast<std::uint16_t>(thread);
    event.kind = kind;
    return event;
  }
  void device(DeviceKind kind,
              std::string_view name,
              std::int64_t start,
              std::int64_t end,
              std::uint32_t stream) {
    DeviceEvent event;
    event.start = start * kMicro;
    event.end = end * kMicro;
    event.name = id(name);
    event.correlation = correlation_;
    event.stream = stream;
    event.kind = kind;
    trace_.device.push_back(event);
  }

  Trace trace_;
  std::uint32_t correlation_ = 100;
};

} // namespace assay::synthetic
