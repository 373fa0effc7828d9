// On a CPU a step is its host interval, cut by the spans of its own thread. On a GPU the host runs
// ahead, so a step is what the device did for it: from the end of the previous step's last event
// (or, where the device was drained before, from the host's start) to the end of its own. A piece
// of device time belongs to the stage that the step's thread was in when the piece's event was
// launched, on whichever thread: the backward pass is launched from a thread of autograd while the
// main thread waits inside "backward". Nodes of a CUDA graph belong to the stage that they were
// captured in.
#include "experiments/attribution/tiling.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "experiments/attribution/device_launches.h"
#include "experiments/attribution/graph_nodes.h"
#include "experiments/attribution/kernel_class.h"
#include "experiments/attribution/stage_timeline.h"

namespace assay {

namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::uint8_t kHostToDevice = 1, kDeviceToHost = 2, kPeerToPeer = 10; // CUPTI's numbers

// Adds [start, end) to a step, joined with the piece before it where the stage is the same.
void add_segment(StepTiling& tiling, std::int64_t start, std::int64_t end, Stage stage) {
  if (end <= start) return;
  tiling.stage_ns[static_cast<std::size_t>(stage)] += end - start;
  if (!tiling.segments.empty() && tiling.segments.back().stage == stage)
    tiling.segments.back().end = end;
  else
    tiling.segments.push_back({start, end, stage});
}

class Timelines { // one a thread that runs steps
public:
  explicit Timelines(const Trace& trace) {
    for (const StepRow& step : trace.steps)
      if (!by_thread_.contains(step.global_tid))
        by_thread_.emplace(step.global_tid, StageTimeline(trace, step.global_tid));
  }
  const StageTimeline& of(const StepRow& step) const { return by_thread_.at(step.global_tid); }

private:
  std::map<std::int64_t, StageTimeline> by_thread_;
};

TiledTrace tile_host(const Trace& trace) {
  TiledTrace result;
  const Timelines timelines(trace);
  for (const StepRow& step : trace.steps) {
    StepTiling tiling;
    tiling.step = step;
    tiling.start = step.start;
    tiling.end = std::max(step.start, step.end);
    tiling.host_ns = tiling.wall_ns();
    for (const auto& piece : timelines.of(step).pieces(tiling.start, tiling.end))
      add_segment(tiling, piece.start, piece.end, piece.stage.value_or(Stage::HostGap));
    result.steps.push_back(std::move(tiling));
  }
  return result;
}

// What a device event is when several run at once: the lowest rank owns the time.
enum class Rank : std::uint8_t { Compute, Communication, Copy };

struct Piece { // of time that one device event owns
  std::int64_t start = 0, end = 0;
  std::uint32_t event = 0;
};

struct Wait { // of the host for the device
  std::int64_t start = 0, end = 0;
};

bool has_time(const DeviceEvent& event) {
  return event.start != 0 && event.end > event.start;
}

// By device event.
std::vector<Rank> ranks_of(const Trace& trace) {
  std::vector<bool> is_nccl; // by name
  for (const std::string& name : trace.names) is_nccl.push_back(kernel_class(name) == "nccl");
  const auto rank = [&](const DeviceEvent& event) {
    if (event.kind == DeviceKind::Kernel)
      return is_nccl[event.name] ? Rank::Communication : Rank::Compute;
    if (event.kind == DeviceKind::Set) return Rank::Compute;
    if (event.copy_kind == kPeerToPeer) return Rank::Communication;
    return event.copy_kind == kHostToDevice || event.copy_kind == kDeviceToHost ? Rank::Copy
                                                                                : Rank::Compute;
  };
  std::vector<Rank> ranks;
  ranks.reserve(trace.device.size());
  for (const DeviceEvent& event : trace.device) ranks.push_back(rank(event));
  return ranks;
}

// Whether step i runs on from step i - 1: the next unit of one visit, on one thread.
bool follows(const std::vector<StepRow>& steps, std::size_t i) {
  if (i == 0) return false;
  const StepRow& a = steps[i - 1];
  const StepRow& b = steps[i];
  return a.round == b.round && b.position == a.position + 1 && a.global_tid == b.global_tid;
}

// The step that a moment of the host belongs to: what happens between two steps of a visit
// prepares the later one.
std::int64_t step_of_launch(const std::vector<StepRow>& steps, std::int64_t time) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), time, [](std::int64_t t, const StepRow& step) {
        return t < step.start;
      });
  const std::int64_t after = next - steps.begin();
  if (after > 0 && time <= (next - 1)->end) return after - 1;
  if (after > 0 && next != steps.end() && follows(steps, static_cast<std::size_t>(after)))
    return after;
  return -1;
}

// Of an event that the host launched at `launch`, in `step` or outside every step (nullptr).
Stage stage_of(const DeviceEvent& event,
               Rank rank,
               const StepRow* step,
               std::int64_t launch,
               const Timelines& timelines) {
  if (rank == Rank::Communication) return Stage::ExposedComm;
  if (event.kind == DeviceKind::Copy && event.copy_kind == kHostToDevice)
    return Stage::HostToDevice;
  if (step == nullptr) return Stage::HostGap;
  return timelines.of(*step).at(launch).value_or(Stage::HostGap);
}

// By the launch; an event whose launch was not recorded goes where the one before it on its
// stream went, because a stream keeps the order of launches.
std::vector<DeviceOwner>
owners_of(const Trace& trace, const std::vector<Rank>& ranks, const Timelines& timelines) {
  const DeviceLaunches launches(trace.api);
  const GraphNodes graph_nodes(trace);
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::int64_t> last_launch;
  std::vector<DeviceOwner> owners;
  for (std::size_t i = 0; i < trace.device.size(); ++i) {
    const DeviceEvent& event = trace.device[i];
    const std::pair stream{event.device, event.stream};
    const std::optional<std::int64_t> known = launches.start_of(event);
    const auto before = last_launch.find(stream);
    const std::int64_t launch = known                         ? *known
                                : before != last_launch.end() ? before->second
                                                              : event.start;
    if (known) last_launch[stream] = launch;
    const std::int64_t step = step_of_launch(trace.steps, launch);
    const StepRow* row = step < 0 ? nullptr : &trace.steps[static_cast<std::size_t>(step)];
    // The host launched the whole graph at once, outside of its stages.
    const Stage stage =
        event.graph ? graph_nodes.stage_of(i) : stage_of(event, ranks[i], row, launch, timelines);
    owners.push_back({step, stage});
  }
  return owners;
}

// By step, of its last device event; -1: none.
std::vector<std::int64_t> last_ends(const Trace& trace, const std::vector<DeviceOwner>& owners) {
  std::vector<std::int64_t> ends(trace.steps.size(), -1);
  for (std::size_t i = 0; i < trace.device.size(); ++i) {
    if (owners[i].step < 0 || !has_time(trace.device[i])) continue;
    std::int64_t& end = ends[static_cast<std::size_t>(owners[i].step)];
    end = std::max(end, trace.device[i].end);
  }
  return ends;
}

// Where a thread that runs steps waits for the device, in order: by its calls, and by CUPTI's
// records of waits, of which "wait sync" (a stream waits) keeps the host running.
std::vector<Wait> waits_of(const Trace& trace) {
  std::vector<bool> runs_steps(trace.threads.size());
  for (const StepRow& step : trace.steps)
    for (std::size_t i = 0; i < trace.threads.size(); ++i)
      if (trace.threads[i] == step.global_tid) runs_steps[i] = true;
  std::vector<Wait> waits;
  const auto add = [&](const HostEvent& call) {
    if (call.thread < runs_steps.size() && runs_steps[call.thread] && call.end > call.start)
      waits.push_back({call.start, call.end});
  };
  std::vector<bool> calls(trace.names.size()), records(trace.names.size());
  for (std::size_t i = 0; i < trace.names.size(); ++i) {
    calls[i] = trace.names[i].find("Synchronize") != std::string::npos;
    records[i] = trace.names[i].find("wait sync") == std::string::npos;
  }
  for (const HostEvent& call : trace.api)
    if (calls[call.name]) add(call);
  for (const HostEvent& record : trace.syncs)
    if (records[record.name]) add(record);
  std::sort(waits.begin(), waits.end(), [](const Wait& a, const Wait& b) {
    return std::tie(a.start, a.end) < std::tie(b.start, b.end);
  });
  return waits;
}

// Where the host is inside a step and does not wait for the device, in order: a gap of the device
// there is the host's.
std::vector<StageSegment> host_work(const std::vector<StepRow>& steps,
                                    const std::vector<Wait>& waits,
                                    const Timelines& timelines) {
  std::vector<StageSegment> work;
  std::size_t wait = 0;
  for (const StepRow& step : steps)
    for (const auto& piece : timelines.of(step).pieces(step.start, step.end)) {
      const Stage stage = piece.stage == Stage::DataWait ? Stage::DataWait : Stage::HostGap;
      std::int64_t from = piece.start;
      while (wait < waits.size() && waits[wait].end <= from) ++wait;
      for (std::size_t w = wait; w < waits.size() && waits[w].start < piece.end; ++w) {
        if (waits[w].start > from) work.push_back({from, waits[w].start, stage});
        from = std::max(from, waits[w].end);
      }
      if (from < piece.end) work.push_back({from, piece.end, stage});
    }
  return work;
}

// Cuts the device's busy time into pieces of one owner each: of the events that run at a moment,
// the lowest rank, then the earliest start.
std::vector<Piece> exclusive_pieces(const std::vector<DeviceEvent>& events,
                                    const std::vector<Rank>& ranks) {
  using Key = std::tuple<Rank, std::int64_t, std::uint32_t>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> running;
  std::vector<Piece> pieces;
  std::size_t next = 0;
  std::int64_t now = 0;
  while (true) {
    while (next < events.size() && !has_time(events[next])) ++next;
    if (running.empty()) {
      if (next == events.size()) return pieces;
      now = std::max(now, events[next].start);
    }
    if (next < events.size() && events[next].start <= now) {
      running.emplace(ranks[next], events[next].start, static_cast<std::uint32_t>(next));
      ++next;
      continue;
    }
    const std::uint32_t owner = std::get<2>(running.top());
    if (events[owner].end <= now) {
      running.pop();
      continue;
    }
    const std::int64_t until =
        std::min(events[owner].end, next < events.size() ? events[next].start : kForever);
    if (!pieces.empty() && pieces.back().event == owner && pieces.back().end == now)
      pieces.back().end = until;
    else
      pieces.push_back({now, until, owner});
    now = until;
  }
}

// Whether step i runs on from step i - 1 and the host did not wait for the device between the two.
bool runs_on(const std::vector<StepRow>& steps, std::size_t i, const std::vector<Wait>& waits) {
  if (!follows(steps, i)) return false;
  const auto wait = std::lower_bound(
      waits.begin(), waits.end(), steps[i - 1].end, [](const Wait& candidate, std::int64_t time) {
        return candidate.start < time;
      });
  return wait == waits.end() || wait->start >= steps[i].start;
}

// The interval of each step on the device's clock, not yet cut.
std::vector<StepTiling> intervals_of(const std::vector<StepRow>& steps,
                                     const std::vector<std::int64_t>& last_ends,
                                     const std::vector<Wait>& waits) {
  std::vector<StepTiling> tilings;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    StepTiling tiling;
    tiling.step = steps[i];
    tiling.host_ns = std::max<std::int64_t>(0, tiling.step.end - tiling.step.start);
    if (i == 0) { // nothing that it could run on from
      tiling.start = tiling.step.start;
    } else {
      const std::int64_t before = tilings[i - 1].end;
      tiling.start = runs_on(steps, i, waits) ? before : std::max(before, tiling.step.start);
    }
    tiling.end = std::max(tiling.start, last_ends[i]);
    // The last step before a drain also contains what the host still did after the device was done;
    // elsewhere that is part of the next step's interval.
    if (i + 1 == steps.size() || !runs_on(steps, i + 1, waits))
      tiling.end = std::max(tiling.end, tiling.step.end);
    tilings.push_back(std::move(tiling));
  }
  return tilings;
}

// [start, end) in which the device does nothing: the host's where it works, else idle.
void add_gap(StepTiling& tiling,
             std::int64_t start,
             std::int64_t end,
             const std::vector<StageSegment>& host_work) {
  if (end <= start) return;
  auto work = std::upper_bound(
      host_work.begin(), host_work.end(), start, [](std::int64_t t, const StageSegment& piece) {
        return t < piece.end;
      });
  for (; start < end && work != host_work.end() && work->start < end; ++work) {
    add_segment(tiling, start, std::max(start, work->start), Stage::Idle);
    start = std::max(start, work->start);
    add_segment(tiling, start, std::min(end, work->end), work->stage);
    start = std::min(end, work->end);
  }
  add_segment(tiling, start, end, Stage::Idle);
}

// Cuts the intervals of `tilings` by what the device and, in its gaps, the host did.
TiledTrace cut(std::vector<StepTiling> tilings,
               const std::vector<Piece>& pieces,
               std::vector<DeviceOwner> owners,
               const std::vector<StageSegment>& host_work) {
  std::vector<DeviceShare> shares;
  std::size_t first = 0;
  for (std::size_t i = 0; i < tilings.size(); ++i) {
    StepTiling& tiling = tilings[i];
    while (first < pieces.size() && pieces[first].end <= tiling.start) ++first;
    std::int64_t at = tiling.start;
    for (std::size_t p = first; p < pieces.size() && pieces[p].start < tiling.end; ++p) {
      const std::int64_t from = std::max(at, pieces[p].start);
      const std::int64_t until = std::min(tiling.end, pieces[p].end);
      add_gap(tiling, at, from, host_work);
      const Stage stage = owners[pieces[p].event].stage;
      add_segment(tiling, from, until, stage);
      tiling.device_busy_ns += until - from;
      shares.push_back({pieces[p].event, static_cast<std::uint32_t>(i), stage, until - from});
      at = until;
    }
    add_gap(tiling, at, tiling.end, host_work);
  }
  return {std::move(tilings), std::move(shares), std::move(owners)};
}

TiledTrace tile_device(const Trace& trace) {
  const Timelines timelines(trace);
  const std::vector<Rank> ranks = ranks_of(trace);
  std::vector<DeviceOwner> owners = owners_of(trace, ranks, timelines);
  const std::vector<Wait> waits = waits_of(trace);
  std::vector<StepTiling> intervals = intervals_of(trace.steps, last_ends(trace, owners), waits);
  return cut(std::move(intervals),
             exclusive_pieces(trace.device, ranks),
             std::move(owners),
             host_work(trace.steps, waits, timelines));
}

} // namespace

std::int64_t step_at(const std::vector<StepRow>& steps, std::int64_t time) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), time, [](std::int64_t t, const StepRow& step) {
        return t < step.start;
      });
  return next != steps.begin() && time <= (next - 1)->end ? next - steps.begin() - 1 : -1;
}

TiledTrace tile_trace(const Trace& trace) {
  return trace.on_gpu() ? tile_device(trace) : tile_host(trace);
}

std::vector<StepTiling> tile_steps(const Trace& trace) {
  return tile_trace(trace).steps;
}

} // namespace assay
