// ChromeTrace: one trace file as Chrome trace events, in Kineto's conventions (docs/exports.md), so
// that Perfetto, chrome://tracing, HolisticTraceAnalysis and TraceLens read it as they read
// PyTorch's own. One pass over the host's rows, one over the device's; memory grows with open
// slices, names and correlations, not with rows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/sqlite/database.h"
#include "experiments/export/chrome_writer.h"
#include "experiments/export/nesting_lanes.h"
#include "experiments/export/paged_map.h"
#include "experiments/export/read_ahead.h"
#include "experiments/export/trace_cursor.h"

namespace assay {

struct ChromeSide {          // the place of one trace in the document
  std::string prefix;        // "baseline · ", or "" when it is alone
  std::string variant;       // for labels
  std::int64_t index = 0;    // of the candidate 1: pids + 1000, flow ids of their own
  std::int64_t shift_ns = 0; // added to the file's times
  TimeRange window;          // rows to export, in the file's times
};

struct ChromeCounts {
  std::int64_t events = 0;
  std::int64_t clamped = 0; // ends before starts, or lost: drawn without length
  std::int64_t moved = 0;   // slices on "(overlap)" tracks
  std::int64_t placed = 0;  // launches that were not recorded, drawn after the call before them
};

// The document's process for a real one: the same number for the baseline, 1000 more for the
// candidate; a pid so small that it would meet the number of a GPU is moved out of the way.
std::int64_t chrome_pid(std::int64_t pid, std::int64_t side);

class ChromeTrace {
public:
  ChromeTrace(const Database& database, const ChromeSide& side, ChromeWriter& out);
  ChromeCounts write();

private:
  struct Launch {                   // the call that started a piece of device work
    std::uint32_t span = 0, op = 0; // 1 + index, External id; 0: none
    bool linked = false;            // an arrow leaves the call, and none has ended yet
    bool device = false;            // the correlation belongs to device work
  };
  struct SpanInfo {
    std::uint32_t parent; // 1 + index; 0: none
    bool step;
    std::int64_t name; // StringIds; of a step: its number
  };
  struct Open { // a span or operator that may still enclose later rows of its thread
    std::int64_t end;
    std::uint32_t id;
  };
  struct Thread {
    ChromeTrack track;
    NestingLanes lanes{true}, overhead{true};
    std::vector<Open> spans, operators;
  };
  struct Stream {
    NestingLanes lanes{false};
    bool waits = false;                // has a "(sync)" track
    std::vector<Open> annotations;     // open ones, outermost first; `end`: their start
    std::int64_t last_end = INT64_MIN; // of lane 0
  };
  struct Forward { // an operator that a backward one may point at
    ChromeTrack track;
    std::int64_t time;
  };

  void load_names();
  void find_correlations();
  void find_unrecorded(std::vector<std::uint32_t>& device);

  void write_host_item(const HostItem& item);
  void write_span(Thread& thread, const HostItem& item);
  void write_operator(Thread& thread, const HostItem& item);
  void write_api(Thread& thread, const HostItem& item);
  void write_unrecorded(const Thread& thread, const HostItem& call, bool first);
  ChromeTrack
  host_slice(Thread& thread, const HostItem& item, const char* category, std::string_view name);
  void link_backward(const HostItem& item, ChromeTrack track);

  void write_device(ReadAhead<DeviceCursor, DeviceItem>& rows);
  void write_device_item(const DeviceItem& item);
  void write_device_args(const DeviceItem& item, std::uint32_t op);
  void annotate(Stream& stream, ChromeTrack track, const DeviceItem& item, std::uint32_t span);
  void close_annotations(Stream& stream, ChromeTrack track, std::size_t keep);
  void write_syncs();
  void write_counters();
  void write_labels();
  void label_host();
  void label_streams();

  Thread& thread_of(std::int64_t global_tid);
  std::int64_t gpu_pid(std::int64_t device) const;
  std::int64_t duration(std::int64_t start, std::int64_t end);
  std::int64_t at(std::int64_t time) const { return time + side_.shift_ns; }
  const std::string& name(std::int64_t id) const;
  std::string name_of(const SpanInfo& span) const;

  const Database& database_;
  const ChromeSide& side_;
  ChromeWriter& out_;
  ChromeCounts counts_;
  std::vector<std::string> names_; // escaped, by id
  PagedMap<Launch> launches_;
  // Device work without a recorded call, behind the last recorded call before it: call, work.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> unrecorded_;
  bool any_call_ = false; // written yet
  std::vector<SpanInfo> spans_;
  std::uint32_t operators_ = 0; // written so far; the External id of the next is one more
  std::map<std::int64_t, Thread> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, Stream> streams_; // device, stream
  std::unordered_map<std::int64_t, Forward> forward_;               // by sequence number
  std::int64_t next_backward_flow_ = 0;
  std::map<std::int64_t, std::string> counter_processes_;
};

} // namespace assay
