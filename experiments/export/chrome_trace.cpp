#include "experiments/export/chrome_trace.h"

#include <algorithm>
#include <utility>

#include "core/files/json_text.h"
#include "core/trace/trace_schema.h"

namespace assay {

namespace {

constexpr std::int64_t kSidePids = 1000;  // between the processes of the two sides
constexpr std::int64_t kSmallPids = 4096; // real pids below could be taken for another process
constexpr std::int64_t kMovedPids = 10'000'000;   // above Linux's largest pid
constexpr std::int64_t kOverlapTids = 10'000'000; // between a track and its overlap track
constexpr std::int64_t kSyncTids = 5'000'000;
constexpr std::int64_t kCounterPids = 20'000'000;
constexpr std::int64_t kGpuSort = 5'000'000; // Kineto's: GPUs below the host
constexpr std::int64_t kOverheadPid = -1;
constexpr std::int64_t kSideFlows = std::int64_t{1} << 33; // correlations have 32 bits

const char* sync_name(std::int64_t type) {
  constexpr const char* kNames[] = {"Synchronization",
                                    "Event Synchronize",
                                    "Stream Wait Event",
                                    "Stream Synchronize",
                                    "Context Synchronize"};
  return type > 0 && type < 5 ? kNames[type] : kNames[0];
}

// Rows that no writer of ours leaves.
[[noreturn]] void refuse(const Database& database, const std::string& cause) {
  throw Failure(Failure::Kind::BadInput, trace_schema::damaged(database.path(), cause).message);
}

} // namespace

std::int64_t chrome_pid(std::int64_t pid, std::int64_t side) {
  return (pid < kSmallPids ? pid + kMovedPids : pid) + side * kSidePids;
}

ChromeTrace::ChromeTrace(const Database& database, const ChromeSide& side, ChromeWriter& out)
    : database_(database), side_(side), out_(out) {}

ChromeCounts ChromeTrace::write() {
  const std::int64_t before = out_.events();
  // Both are read ahead from the start; the device's rows wait, ready, until the host's are
  // written.
  ReadAhead<HostCursor, HostItem> host(database_.path(), side_.window);
  ReadAhead<DeviceCursor, DeviceItem> device(database_.path(), side_.window);
  load_names();
  find_correlations();
  for (HostItem item; host.next(item);) write_host_item(item);
  write_device(device);
  write_syncs();
  write_counters();
  write_labels();
  counts_.events = out_.events() - before;
  return counts_;
}

void ChromeTrace::load_names() {
  Statement s = database_.prepare("SELECT id, value FROM StringIds ORDER BY id");
  while (s.step()) {
    const auto id = static_cast<std::size_t>(s.integer(0));
    if (id != names_.size()) refuse(database_, fmt::format("string {} is missing", names_.size()));
    names_.push_back(escape_json(s.text(1)));
  }
}

const std::string& ChromeTrace::name(std::int64_t id) const {
  if (id < 0 || id >= static_cast<std::int64_t>(names_.size()))
    refuse(database_, fmt::format("a row names string {} of {}", id, names_.size()));
  return names_[static_cast<std::size_t>(id)];
}

void ChromeTrace::find_correlations() {
  const DeviceWindow window = device_window(database_, side_.window);
  std::vector<std::uint32_t> device;
  for (const char* table : {"KERNEL", "MEMCPY", "MEMSET"}) {
    Statement s = window.prepare(
        database_, fmt::format("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_{}", table), "");
    while (s.step()) {
      device.push_back(static_cast<std::uint32_t>(s.integer(0)));
      launches_[device.back()].device = true;
    }
  }
  find_unrecorded(device);
}

// Libraries launch through the driver, whose calls are not recorded by default. Their correlations
// are between those of recorded calls, in the order of the calls.
void ChromeTrace::find_unrecorded(std::vector<std::uint32_t>& device) {
  std::sort(device.begin(), device.end());
  device.erase(std::unique(device.begin(), device.end()), device.end());
  Statement calls = database_.prepare("SELECT correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE "
                                      "correlationId > 0 ORDER BY correlationId");
  bool more = calls.step();
  if (!more) return; // no calls at all: nothing to place work behind
  std::uint32_t before = 0;
  for (const std::uint32_t id : device) {
    for (; more && calls.integer(0) <= std::int64_t{id}; more = calls.step())
      before = static_cast<std::uint32_t>(calls.integer(0));
    if (before != id && id != 0) unrecorded_.emplace_back(before, id);
  }
}

// ---- Host ----

void ChromeTrace::write_host_item(const HostItem& item) {
  Thread& thread = thread_of(item.global_tid);
  switch (item.kind) {
  case HostRow::Step:
    forward_.clear(); // no backward reaches into an earlier step
    write_span(thread, item);
    break;
  case HostRow::Range:
    if (item.event_class == 34) // NVTX mark
      out_.instant("user_annotation", name(item.name), thread.track, at(item.start), 't');
    else if (item.event_class == 59 || item.event_class == 60)
      write_span(thread, item);
    break;
  case HostRow::Operator:
    write_operator(thread, item);
    break;
  case HostRow::Api:
    write_api(thread, item);
    break;
  case HostRow::Overhead: {
    const std::int64_t length = duration(item.start, item.end);
    const std::size_t lane = thread.overhead.place(item.start, item.start + length);
    const auto tid = thread.track.tid + static_cast<std::int64_t>(lane) * kOverlapTids;
    out_.slice("overhead",
               name(item.name),
               {kOverheadPid + side_.index * kSidePids, tid},
               at(item.start),
               length);
    out_.close();
    break;
  }
  }
}

std::int64_t ChromeTrace::duration(std::int64_t start, std::int64_t end) {
  if (end >= start && end != 0) return end - start;
  ++counts_.clamped;
  return 0;
}

// Writes the slice up to its arguments.
ChromeTrack ChromeTrace::host_slice(Thread& thread,
                                    const HostItem& item,
                                    const char* category,
                                    std::string_view text) {
  const std::int64_t length = duration(item.start, item.end);
  const std::size_t lane = thread.lanes.place(item.start, item.start + length);
  if (lane > 0) ++counts_.moved;
  ChromeTrack track = thread.track;
  track.tid += static_cast<std::int64_t>(lane) * kOverlapTids;
  out_.slice(category, text, track, at(item.start), length);
  return track;
}

void ChromeTrace::write_span(Thread& thread, const HostItem& item) {
  std::erase_if(thread.spans, [&](const Open& open) { return open.end <= item.start; });
  const std::uint32_t parent = thread.spans.empty() ? 0 : thread.spans.back().id;
  spans_.push_back({parent, item.kind == HostRow::Step, item.name});
  thread.spans.push_back({item.end, static_cast<std::uint32_t>(spans_.size())});
  host_slice(thread, item, "user_annotation", name_of(spans_.back()));
  out_.close();
}

// HTA finds iterations by "ProfilerStep#".
std::string ChromeTrace::name_of(const SpanInfo& span) const {
  return span.step ? fmt::format("ProfilerStep#{}", span.name) : name(span.name);
}

void ChromeTrace::write_operator(Thread& thread, const HostItem& item) {
  std::erase_if(thread.operators, [&](const Open& open) { return open.end <= item.start; });
  thread.operators.push_back({item.end, ++operators_});
  const ChromeTrack track = host_slice(thread, item, "cpu_op", name(item.name));
  out_.arg("External id", operators_);
  if (item.sequence >= 0) out_.arg("Sequence number", item.sequence);
  out_.close();
  if (item.sequence >= 0) link_backward(item, track);
}

// Operators of one call share a sequence number; the arrow goes from the last forward one to the
// first backward one, as Kineto draws it.
void ChromeTrace::link_backward(const HostItem& item, ChromeTrack track) {
  if (!item.backward) {
    forward_[item.sequence] = {track, at(item.start)};
    return;
  }
  const auto found = forward_.find(item.sequence);
  if (found == forward_.end()) return;
  const std::int64_t id = ++next_backward_flow_ + side_.index * kSideFlows;
  out_.flow_start("fwdbwd", id, found->second.track, found->second.time);
  out_.flow_end("fwdbwd", id, track, at(item.start));
  forward_.erase(found);
}

void ChromeTrace::write_api(Thread& thread, const HostItem& item) {
  std::erase_if(thread.spans, [&](const Open& open) { return open.end <= item.start; });
  std::erase_if(thread.operators, [&](const Open& open) { return open.end <= item.start; });
  const std::uint32_t op = thread.operators.empty() ? 0 : thread.operators.back().id;
  const ChromeTrack track = host_slice(
      thread, item, item.event_class == 1 ? "cuda_driver" : "cuda_runtime", name(item.name));
  if (op != 0) out_.arg("External id", op);
  if (item.correlation != 0) out_.arg("correlation", item.correlation);
  out_.close();
  write_unrecorded(thread, item, !std::exchange(any_call_, true));
  Launch* launch = item.correlation == 0 ? nullptr : launches_.find(item.correlation);
  if (launch == nullptr || !launch->device || launch->linked) return;
  launch->span = thread.spans.empty() ? 0 : thread.spans.back().id;
  launch->op = op;
  launch->linked = true;
  out_.flow_start("ac2g", item.correlation + side_.index * kSideFlows, track, at(item.start));
}

// Marks for launches that were not recorded, after the last recorded call before them (`first`: or
// before every one): HTA and TraceLens leave out device work that no call of the host started.
void ChromeTrace::write_unrecorded(const Thread& thread, const HostItem& call, bool first) {
  if (call.correlation == 0 || unrecorded_.empty()) return;
  const auto begin = first ? unrecorded_.begin()
                           : std::lower_bound(unrecorded_.begin(),
                                              unrecorded_.end(),
                                              std::pair(call.correlation, std::uint32_t{0}));
  const std::int64_t time = at(std::max(call.start, call.end));
  for (auto it = begin; it != unrecorded_.end() && it->first <= call.correlation; ++it) {
    Launch& launch = launches_[it->second];
    if (launch.linked) continue;
    launch.linked = true;
    launch.span = thread.spans.empty() ? 0 : thread.spans.back().id;
    ++counts_.placed;
    out_.slice("cuda_driver", "launch (not recorded)", thread.track, time, 0);
    out_.arg("correlation", it->second);
    out_.close();
    out_.flow_start("ac2g", it->second + side_.index * kSideFlows, thread.track, time);
  }
}

// ---- Device ----

void ChromeTrace::write_device(ReadAhead<DeviceCursor, DeviceItem>& rows) {
  for (DeviceItem item; rows.next(item);) write_device_item(item);
  for (auto& [key, stream] : streams_)
    close_annotations(stream, {gpu_pid(key.first), key.second}, 0);
}

void ChromeTrace::write_device_item(const DeviceItem& item) {
  Stream& stream = streams_[{item.device, item.stream}];
  const std::int64_t length = duration(item.start, item.end);
  const std::size_t lane = stream.lanes.place(item.start, item.start + length);
  if (lane > 0) ++counts_.moved;
  Launch* launch = launches_.find(item.correlation);
  const ChromeTrack base{gpu_pid(item.device), item.stream};
  if (lane == 0) {
    annotate(stream, base, item, launch == nullptr ? 0 : launch->span);
    stream.last_end = item.start + length;
  }
  const ChromeTrack track{base.pid, base.tid + static_cast<std::int64_t>(lane) * kOverlapTids};
  const bool kernel = item.kind == DeviceKind::Kernel, copy = item.kind == DeviceKind::Copy;
  const std::string made = kernel ? std::string()
                           : copy ? copy_name(item.copy_kind, item.src_kind, item.dst_kind)
                                  : set_name(item.dst_kind);
  out_.slice(kernel ? "kernel"
             : copy ? "gpu_memcpy"
                    : "gpu_memset",
             kernel ? name(item.name) : made,
             track,
             at(item.start),
             length);
  write_device_args(item, launch == nullptr ? 0 : launch->op);
  out_.close();
  if (launch == nullptr || !launch->linked) return;
  launch->linked = false; // a graph launch starts many kernels: the arrow goes to the first
  out_.flow_end("ac2g", item.correlation + side_.index * kSideFlows, track, at(item.start));
}

void ChromeTrace::write_device_args(const DeviceItem& item, std::uint32_t op) {
  if (op != 0) out_.arg("External id", op);
  out_.arg("device", item.device);
  out_.arg("context", item.context);
  out_.arg("stream", item.stream);
  if (item.correlation != 0) out_.arg("correlation", item.correlation);
  if (item.graph_node != 0) out_.arg("graph node id", item.graph_node);
  if (item.kind == DeviceKind::Kernel) {
    out_.arg("registers per thread", item.registers_per_thread);
    out_.arg("shared memory", item.static_shared + item.dynamic_shared);
    out_.arg("grid", item.grid[0], item.grid[1], item.grid[2]);
    out_.arg("block", item.block[0], item.block[1], item.block[2]);
    return;
  }
  out_.arg("bytes", item.bytes);
  if (item.end > item.start) // bytes a nanosecond are GB/s
    out_.arg_number("memory bandwidth (GB/s)",
                    static_cast<double>(item.bytes) / static_cast<double>(item.end - item.start));
}

// The spans in which the work was launched, drawn around it on its stream. A span that is left and
// entered again (another thread launches in between) is drawn in pieces, so that slices nest. Each
// starts 1 ns before its first kernel, unless the one before still runs then.
void ChromeTrace::annotate(Stream& stream,
                           ChromeTrack track,
                           const DeviceItem& item,
                           std::uint32_t span) {
  std::vector<std::uint32_t> chain; // outermost first
  for (std::uint32_t id = span; id != 0; id = spans_[id - 1].parent) chain.push_back(id);
  std::reverse(chain.begin(), chain.end());
  std::size_t same = 0;
  while (same < chain.size() && same < stream.annotations.size() &&
         stream.annotations[same].id == chain[same])
    ++same;
  close_annotations(stream, track, same);
  const std::int64_t start = std::max(item.start - 1, std::min(stream.last_end, item.start));
  for (; same < chain.size(); ++same) stream.annotations.push_back({start, chain[same]});
}

void ChromeTrace::close_annotations(Stream& stream, ChromeTrack track, std::size_t keep) {
  for (; stream.annotations.size() > keep; stream.annotations.pop_back()) {
    const Open& open = stream.annotations.back();
    out_.slice("gpu_user_annotation",
               name_of(spans_[open.id - 1]),
               track,
               at(open.end),
               stream.last_end - open.end);
    out_.close();
  }
}

// Waits: on the device, on a track of their own beside the stream that is waited for. They carry no
// argument "stream": HTA takes every event with one for work.
void ChromeTrace::write_syncs() {
  Statement s = database_.prepare("SELECT start, end, deviceId, streamId, correlationId, syncType "
                                  "FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION WHERE start >= ?1 AND "
                                  "start < ?2 AND start <> 0 ORDER BY start, end DESC");
  s.bind(1, side_.window.begin).bind(2, side_.window.end);
  std::map<std::pair<std::int64_t, std::int64_t>, NestingLanes> lanes;
  while (s.step()) {
    const std::int64_t start = s.integer(0), length = duration(start, s.integer(1));
    // Waits for a whole context or an event name no stream of it: CUPTI writes -1.
    const std::int64_t device = s.integer(2),
                       stream = std::max<std::int64_t>(s.integer(3), 0) & 0xFFFFFF;
    streams_[{device, stream}].waits = true;
    const std::size_t lane =
        lanes.try_emplace({device, stream}, true).first->second.place(start, start + length);
    const std::int64_t tid = stream + kSyncTids + static_cast<std::int64_t>(lane) * kOverlapTids;
    out_.slice("cuda_sync", sync_name(s.integer(5)), {gpu_pid(device), tid}, at(start), length);
    out_.arg("device", device);
    out_.arg("wait_on_stream", s.integer(3));
    if (const auto correlation = s.maybe_integer(4)) out_.arg("correlation", *correlation);
    out_.close();
  }
}

void ChromeTrace::write_counters() {
  Statement metrics = database_.prepare("SELECT typeId, metricId, metricName, source FROM "
                                        "TARGET_INFO_GPU_METRICS WHERE status = 'ok'");
  while (metrics.step()) {
    const bool host = metrics.text(3) == "HOST";
    const std::int64_t pid = kCounterPids + (host ? 1 : 0) + side_.index * kSidePids;
    counter_processes_[pid] = host ? "Host counters" : "GPU 0 counters";
    const std::string text = escape_json(metrics.text(2));
    Statement s =
        database_.prepare("SELECT timestamp, value FROM GPU_METRICS WHERE metricId = ?1 AND "
                          "typeId = ?2 AND timestamp >= ?3 AND timestamp < ?4 ORDER BY "
                          "timestamp");
    s.bind(1, metrics.integer(1)).bind(2, metrics.integer(0));
    s.bind(3, side_.window.begin).bind(4, side_.window.end);
    while (s.step()) out_.counter(text, pid, at(s.integer(0)), s.real(1));
  }
}

// ---- Names and order of tracks ----

std::int64_t ChromeTrace::gpu_pid(std::int64_t device) const {
  return device + side_.index * kSidePids;
}

ChromeTrace::Thread& ChromeTrace::thread_of(std::int64_t global_tid) {
  const auto [place, fresh] = threads_.try_emplace(global_tid);
  if (fresh)
    place->second.track = {chrome_pid(pid_of(global_tid), side_.index), tid_of(global_tid)};
  return place->second;
}

void ChromeTrace::write_labels() {
  label_host();
  label_streams();
  const std::int64_t sort = side_.index * 2 * kGpuSort;
  for (const auto& [pid, text] : counter_processes_) {
    out_.label("process_name", {pid, 0}, "name", side_.prefix + text);
    out_.sort_index("process_sort_index", {pid, 0}, sort + kGpuSort + 100);
  }
}

void ChromeTrace::label_host() {
  const std::int64_t sort = side_.index * 2 * kGpuSort;
  std::map<std::int64_t, std::string> process_names, thread_names;
  Statement processes = database_.prepare("SELECT pid, name FROM PROCESSES");
  while (processes.step()) process_names[processes.integer(0)] = escape_json(processes.text(1));
  Statement named = database_.prepare("SELECT globalTid, nameId FROM ThreadNames");
  while (named.step()) thread_names[named.integer(0)] = name(named.integer(1));
  for (const auto& [global_tid, thread] : threads_) {
    const ChromeTrack track = thread.track;
    std::string process = process_names[pid_of(global_tid)];
    if (process.empty()) process = fmt::format("process {}", pid_of(global_tid));
    out_.label("process_name", {track.pid, 0}, "name", side_.prefix + process);
    out_.label("process_labels", {track.pid, 0}, "labels", side_.variant + " CPU");
    out_.sort_index("process_sort_index", {track.pid, 0}, sort);
    const std::string& given = thread_names[global_tid];
    const std::string text = given.empty() ? fmt::format("thread {}", track.tid)
                                           : fmt::format("thread {} ({})", track.tid, given);
    for (std::size_t lane = 0; lane < thread.lanes.lanes(); ++lane) {
      const ChromeTrack at_lane{track.pid,
                                track.tid + static_cast<std::int64_t>(lane) * kOverlapTids};
      out_.label("thread_name", at_lane, "name", lane == 0 ? text : text + " (overlap)");
      out_.sort_index("thread_sort_index", at_lane, track.tid);
    }
    if (thread.overhead.lanes() == 0) continue;
    const std::int64_t overhead = kOverheadPid + side_.index * kSidePids;
    out_.label("process_name", {overhead, 0}, "name", side_.prefix + "profiler overhead");
    out_.sort_index("process_sort_index", {overhead, 0}, sort + kGpuSort + 200);
  }
}

void ChromeTrace::label_streams() {
  const std::int64_t sort = side_.index * 2 * kGpuSort;
  for (const auto& [key, stream] : streams_) {
    const std::int64_t pid = gpu_pid(key.first);
    out_.label("process_name", {pid, 0}, "name", fmt::format("{}GPU {}", side_.prefix, key.first));
    out_.label(
        "process_labels", {pid, 0}, "labels", fmt::format("{} GPU {}", side_.variant, key.first));
    out_.sort_index("process_sort_index", {pid, 0}, sort + kGpuSort + key.first);
    const auto track = [&](std::int64_t tid, const char* what, std::int64_t place) {
      out_.label("thread_name", {pid, tid}, "name", fmt::format("stream {}{}", key.second, what));
      out_.sort_index("thread_sort_index", {pid, tid}, 10 * key.second + place);
    };
    for (std::size_t lane = 0; lane < stream.lanes.lanes(); ++lane)
      track(key.second + static_cast<std::int64_t>(lane) * kOverlapTids,
            lane == 0 ? "" : " (overlap)",
            lane == 0 ? 0 : 1);
    if (stream.waits) track(key.second + kSyncTids, " (sync)", 2);
  }
}

} // namespace assay
