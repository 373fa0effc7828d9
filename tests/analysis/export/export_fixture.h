// A small trace with what makes exports go wrong, and the parsed document that becomes of it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/trace/trace_file.h"
#include "tests/scratch.h"

namespace assay::test {

inline constexpr std::int64_t kEpoch = 1'763'700'000'000'000'000;
inline constexpr std::int64_t kMain = global_tid(41'000, 41'001);
inline constexpr std::int64_t kOther = global_tid(41'000, 41'002);
inline const std::string kUglyName = "void \"quoted\\back\"\n<tab\there>";

// Builds a trace row by row; times in ns since the session start.
class TraceRows {
public:
  TraceRows(const std::string& path, const std::string& variant) : writer_(path, kEpoch) {
    writer_.set_info("variant", variant);
    writer_.set_info("rank", "3");
    writer_.set_info("device", "cuda");
  }

  void step(std::int64_t number, std::int64_t start, std::int64_t end) {
    StepRow row;
    row.step = number;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.round = static_cast<int>(number);
    row.tokens = 64;
    row.global_tid = kMain;
    batch_.steps.push_back(row);
  }
  void range(const char* name, std::int64_t start, std::int64_t end, std::int64_t thread = kMain) {
    RangeRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.global_tid = thread;
    row.text = writer_.intern(name);
    row.domain = writer_.intern("assay");
    batch_.ranges.push_back(row);
  }
  void op(const char* name,
          std::int64_t start,
          std::int64_t end,
          std::int64_t sequence = -1,
          bool backward = false) {
    OperatorRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.global_tid = backward ? kOther : kMain;
    row.name = writer_.intern(name);
    row.sequence = sequence;
    row.backward = backward;
    batch_.operators.push_back(row);
  }
  void call(const char* name,
            std::int64_t start,
            std::int64_t end,
            std::uint32_t correlation,
            std::uint8_t event_class = 0) {
    ApiRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.global_tid = kMain;
    row.correlation = correlation;
    row.name = writer_.intern(name);
    row.event_class = event_class;
    batch_.api.push_back(row);
  }
  void kernel(const std::string& name,
              std::int64_t start,
              std::int64_t end,
              std::uint32_t correlation,
              std::uint32_t stream = 7) {
    KernelRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.context = 1;
    row.stream = stream;
    row.correlation = correlation;
    row.demangled = row.short_name = writer_.intern(name);
    row.registers_per_thread = 40;
    row.grid = {10, 20, 30};
    row.block = {256, 2, 1};
    row.static_shared_bytes = 16;
    row.dynamic_shared_bytes = 1024;
    batch_.kernels.push_back(row);
  }
  void copy(std::int64_t start, std::int64_t end, std::uint32_t correlation) {
    CopyRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.context = 1;
    row.stream = 7;
    row.correlation = correlation;
    row.bytes = 4000;
    row.copy_kind = 1;
    row.src_kind = 1;
    row.dst_kind = 2;
    batch_.copies.push_back(row);
  }
  void wait(std::int64_t start, std::int64_t end, std::uint32_t correlation) {
    SyncRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.context = 1;
    row.stream = 7;
    row.correlation = correlation;
    row.sync_type = 3;
    batch_.syncs.push_back(row);
  }
  void overhead(std::int64_t start, std::int64_t end) {
    OverheadRow row;
    row.start = kEpoch + start;
    row.end = kEpoch + end;
    row.global_tid = kMain;
    row.name = writer_.intern("Buffer Flush");
    batch_.overhead.push_back(row);
  }
  void sample(const char* metric, std::int64_t time, double value) {
    batch_.telemetry.push_back({kEpoch + time, writer_.intern(metric), value});
  }
  TraceWriter& writer() { return writer_; }
  void finish() {
    writer_.append(batch_);
    writer_.finish();
  }

private:
  TraceWriter writer_;
  TraceBatch batch_;
};

// Two steps. In the first: crossing ranges, kernels that overlap, a kernel whose end is lost, a
// CUDA graph of two kernels, a launch that was not recorded; the second step's kernel runs after
// its end.
inline std::string
ugly_trace(const std::string& path, const std::string& variant, std::int64_t shift = 0) {
  TraceRows rows(path, variant);
  const auto t = [&](std::int64_t time) { return shift + time; };
  rows.writer().set_telemetry_metrics({{"Power [W]", "NVML", "ok"},
                                       {"CPU busy [%]", "HOST", "ok"},
                                       {"Energy [J]", "NVML", "not permitted: no rights"}});
  rows.step(0, t(1000), t(50'000));
  rows.range("forward", t(1100), t(20'000));
  rows.range("crosses forward", t(15'000), t(25'000)); // starts inside, ends outside
  rows.op("aten::linear", t(1200), t(5000), 9);
  rows.op("aten::mm", t(1300), t(4000), 9);
  rows.call("cudaLaunchKernel", t(1400), t(1900), 11);
  rows.kernel(kUglyName, t(2500), t(9000), 11);
  rows.call("cudaLaunchKernel", t(5000), t(5500), 12);
  rows.kernel("starts before the other ends", t(8000), t(12'000), 12);
  rows.call("cudaGraphLaunch", t(6000), t(6500), 13);
  rows.kernel("graph node 1", t(12'000), t(13'000), 13);
  rows.kernel("graph node 2", t(13'000), t(14'000), 13);
  rows.kernel("launched by a library", t(14'000), t(15'000), 14); // no call has correlation 14
  rows.call("cuLaunchKernel", t(7000), t(7100), 15, 1);
  rows.kernel("its end came before its start", t(16'000), t(15'500), 15);
  rows.range("backward", t(26'000), t(45'000));
  rows.op("MmBackward0", t(27'000), t(30'000), 9, true);
  rows.op("a child of it", t(28'000), t(29'000), 9, true);
  rows.call("cudaMemcpyAsync", t(31'000), t(31'500), 16);
  rows.copy(t(32'000), t(34'000), 16);
  rows.call("cudaStreamSynchronize", t(46'000), t(49'000), 17);
  rows.wait(t(46'100), t(48'900), 17);
  rows.overhead(t(40'000), t(41'000));
  rows.step(1, t(60'000), t(70'000));
  rows.range("forward", t(60'100), t(69'000));
  rows.call("cudaLaunchKernel", t(61'000), t(61'500), 18);
  rows.kernel("outlives its step", t(62'000), t(90'000), 18);
  rows.kernel("no time stamp", -kEpoch, -kEpoch, 19);
  rows.sample("Power [W]", t(2000), 300.5);
  rows.sample("Power [W]", t(65'000), 310);
  rows.sample("CPU busy [%]", t(2000), 50);
  rows.finish();
  return path;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

using Events = std::vector<nlohmann::json>;

// Events for which `wanted` holds.
template <class Wanted> Events select(const nlohmann::json& document, Wanted wanted) {
  Events result;
  for (const auto& event : document.at("traceEvents"))
    if (wanted(event)) result.push_back(event);
  return result;
}

inline Events of_category(const nlohmann::json& document, const std::string& category) {
  return select(document,
                [&](const auto& e) { return e.value("cat", "") == category && e["ph"] == "X"; });
}

inline std::int64_t ns(const nlohmann::json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

} // namespace assay::test
