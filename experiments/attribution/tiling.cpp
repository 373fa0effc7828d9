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
  explicit Timelines(const Trace& trace) : trace_(trace) {}
  const StageTimeline& of(std::int64_t thread) {
    const auto found = by_thread_.find(thread);
    if (found != by_thread_.end()) return found->second;
    return by_thread_.emplace(thread, StageTimeline(trace_, thread)).first->second;
  }

private:
  const Trace& trace_;
  std::map<std::int64_t, StageTimeline> by_thread_;
};

TiledTrace tile_host(const Trace& trace) {
  TiledTrace result;
  Timelines timelines(trace);
  for (const StepRow& step : trace.steps) {
    StepTiling tiling;
    tiling.step = step;
    tiling.start = step.start;
    tiling.end = std::max(step.start, step.end);
    tiling.host_ns = tiling.wall_ns();
    for (const auto& piece : timelines.of(step.global_tid).pieces(tiling.start, tiling.end))
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

class DeviceTiler {
public:
  explicit DeviceTiler(const Trace& trace) : trace_(trace), timelines_(trace), graph_nodes_(trace) {
    for (const std::string& name : trace.names) is_nccl_.push_back(kernel_class(name) == "nccl");
  }

  TiledTrace tile() {
    own_events();
    collect_host_work();
    const std::vector<Piece> pieces = exclusive_pieces();
    std::size_t first = 0;
    for (std::size_t i = 0; i < trace_.steps.size(); ++i) {
      add_interval(i);
      while (first < pieces.size() && pieces[first].end <= result_.steps[i].start) ++first;
      fill(i, pieces, first);
    }
    return std::move(result_);
  }

private:
  Rank rank(const DeviceEvent& event) const {
    if (event.kind == DeviceKind::Kernel)
      return is_nccl_[event.name] ? Rank::Communication : Rank::Compute;
    if (event.kind == DeviceKind::Set) return Rank::Compute;
    if (event.copy_kind == kPeerToPeer) return Rank::Communication;
    return event.copy_kind == kHostToDevice || event.copy_kind == kDeviceToHost ? Rank::Copy
                                                                                : Rank::Compute;
  }

  // The step that a moment of the host belongs to: what happens between two steps of a visit
  // prepares the later one.
  std::int64_t step_of_launch(std::int64_t time) const {
    const std::vector<StepRow>& steps = trace_.steps;
    const auto next =
        std::upper_bound(steps.begin(), steps.end(), time, [](std::int64_t t, const StepRow& step) {
          return t < step.start;
        });
    const std::int64_t after = next - steps.begin();
    if (after > 0 && time <= (next - 1)->end) return after - 1;
    if (after > 0 && next != steps.end() && follows(static_cast<std::size_t>(after))) return after;
    return -1;
  }

  Stage stage_of(const DeviceEvent& event, std::int64_t step, std::int64_t launch) {
    if (rank(event) == Rank::Communication) return Stage::ExposedComm;
    if (event.kind == DeviceKind::Copy && event.copy_kind == kHostToDevice)
      return Stage::HostToDevice;
    if (step < 0) return Stage::HostGap;
    const std::int64_t thread = trace_.steps[static_cast<std::size_t>(step)].global_tid;
    return timelines_.of(thread).at(launch).value_or(Stage::HostGap);
  }

  // By the launch; an event whose launch was not recorded goes where the one before it on its
  // stream went, because a stream keeps the order of launches.
  void own_events() {
    const DeviceLaunches launches(trace_.api);
    std::map<std::pair<std::uint16_t, std::uint32_t>, std::int64_t> last_launch;
    for (std::size_t i = 0; i < trace_.device.size(); ++i) {
      const DeviceEvent& event = trace_.device[i];
      const std::pair stream{event.device, event.stream};
      const std::optional<std::int64_t> known = launches.start_of(event);
      const auto before = last_launch.find(stream);
      const std::int64_t launch = known                         ? *known
                                  : before != last_launch.end() ? before->second
                                                                : event.start;
      if (known) last_launch[stream] = launch;
      const std::int64_t step = step_of_launch(launch);
      // The host launched the whole graph at once, outside of its stages.
      const Stage stage = event.graph ? graph_nodes_.stage_of(i) : stage_of(event, step, launch);
      result_.owners.push_back({step, stage});
    }
    last_end_.assign(trace_.steps.size(), -1);
    for (std::size_t i = 0; i < trace_.device.size(); ++i)
      if (const std::int64_t step = result_.owners[i].step; step >= 0 && has_time(trace_.device[i]))
        last_end_[static_cast<std::size_t>(step)] =
            std::max(last_end_[static_cast<std::size_t>(step)], trace_.device[i].end);
  }

  static bool has_time(const DeviceEvent& event) {
    return event.start != 0 && event.end > event.start;
  }

  // Whether step i runs on from step i - 1: the next unit of one visit, on one thread.
  bool follows(std::size_t i) const {
    if (i == 0) return false;
    const StepRow& a = trace_.steps[i - 1];
    const StepRow& b = trace_.steps[i];
    return a.round == b.round && b.position == a.position + 1 && a.global_tid == b.global_tid;
  }

  // ... and the host did not wait for the device between the two.
  bool runs_on(std::size_t i) const {
    if (!follows(i)) return false;
    const StepRow& a = trace_.steps[i - 1];
    const StepRow& b = trace_.steps[i];
    const auto wait =
        std::lower_bound(waits_.begin(), waits_.end(), std::pair{a.end, std::int64_t{INT64_MIN}});
    return wait == waits_.end() || wait->first >= b.start;
  }

  // Where a thread that runs steps waits for the device: by its calls, and by CUPTI's records of
  // waits, of which "wait sync" (a stream waits) keeps the host running.
  std::vector<std::pair<std::int64_t, std::int64_t>> synchronizations() const {
    std::vector<bool> runs_steps(trace_.threads.size());
    for (const StepRow& step : trace_.steps)
      for (std::size_t i = 0; i < trace_.threads.size(); ++i)
        if (trace_.threads[i] == step.global_tid) runs_steps[i] = true;
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    const auto add = [&](const HostEvent& call) {
      if (call.thread < runs_steps.size() && runs_steps[call.thread] && call.end > call.start)
        result.emplace_back(call.start, call.end);
    };
    std::vector<bool> calls(trace_.names.size()), records(trace_.names.size());
    for (std::size_t i = 0; i < trace_.names.size(); ++i) {
      calls[i] = trace_.names[i].find("Synchronize") != std::string::npos;
      records[i] = trace_.names[i].find("wait sync") == std::string::npos;
    }
    for (const HostEvent& call : trace_.api)
      if (calls[call.name]) add(call);
    for (const HostEvent& record : trace_.syncs)
      if (records[record.name]) add(record);
    std::sort(result.begin(), result.end());
    return result;
  }

  // Where the host is inside a step and does not wait for the device: a gap of the device there is
  // the host's.
  void collect_host_work() {
    waits_ = synchronizations();
    std::size_t wait = 0;
    for (const StepRow& step : trace_.steps)
      for (const auto& piece : timelines_.of(step.global_tid).pieces(step.start, step.end)) {
        const Stage stage = piece.stage == Stage::DataWait ? Stage::DataWait : Stage::HostGap;
        std::int64_t from = piece.start;
        while (wait < waits_.size() && waits_[wait].second <= from) ++wait;
        for (std::size_t w = wait; w < waits_.size() && waits_[w].first < piece.end; ++w) {
          if (waits_[w].first > from) host_work_.push_back({from, waits_[w].first, stage});
          from = std::max(from, waits_[w].second);
        }
        if (from < piece.end) host_work_.push_back({from, piece.end, stage});
      }
  }

  // Cuts the device's busy time into pieces of one owner each: of the events that run at a moment,
  // the lowest rank, then the earliest start.
  std::vector<Piece> exclusive_pieces() const {
    using Key = std::tuple<Rank, std::int64_t, std::uint32_t>;
    std::priority_queue<Key, std::vector<Key>, std::greater<>> running;
    std::vector<Piece> pieces;
    const auto& events = trace_.device;
    std::size_t next = 0;
    std::int64_t now = 0;
    while (true) {
      while (next < events.size() && !has_time(events[next])) ++next;
      if (running.empty()) {
        if (next == events.size()) return pieces;
        now = std::max(now, events[next].start);
      }
      if (next < events.size() && events[next].start <= now) {
        running.emplace(rank(events[next]), events[next].start, static_cast<std::uint32_t>(next));
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

  void add_interval(std::size_t i) {
    StepTiling tiling;
    tiling.step = trace_.steps[i];
    tiling.host_ns = std::max<std::int64_t>(0, tiling.step.end - tiling.step.start);
    if (i == 0) { // nothing that it could run on from
      tiling.start = tiling.step.start;
    } else {
      const std::int64_t before = result_.steps[i - 1].end;
      tiling.start = runs_on(i) ? before : std::max(before, tiling.step.start);
    }
    tiling.end = std::max(tiling.start, last_end_[i]);
    // The last step before a drain also contains what the host still did after the device was done;
    // elsewhere that is part of the next step's interval.
    if (i + 1 == trace_.steps.size() || !runs_on(i + 1))
      tiling.end = std::max(tiling.end, tiling.step.end);
    result_.steps.push_back(std::move(tiling));
  }

  void fill(std::size_t i, const std::vector<Piece>& pieces, std::size_t first) {
    StepTiling& tiling = result_.steps[i];
    std::int64_t at = tiling.start;
    for (std::size_t p = first; p < pieces.size() && pieces[p].start < tiling.end; ++p) {
      const std::int64_t from = std::max(at, pieces[p].start);
      const std::int64_t until = std::min(tiling.end, pieces[p].end);
      add_gap(tiling, at, from);
      const Stage stage = result_.owners[pieces[p].event].stage;
      add_segment(tiling, from, until, stage);
      tiling.device_busy_ns += until - from;
      result_.shares.push_back(
          {pieces[p].event, static_cast<std::uint32_t>(i), stage, until - from});
      at = until;
    }
    add_gap(tiling, at, tiling.end);
  }

  void add_gap(StepTiling& tiling, std::int64_t start, std::int64_t end) const {
    if (end <= start) return;
    auto work = std::upper_bound(
        host_work_.begin(), host_work_.end(), start, [](std::int64_t t, const StageSegment& piece) {
          return t < piece.end;
        });
    for (; start < end && work != host_work_.end() && work->start < end; ++work) {
      add_segment(tiling, start, std::max(start, work->start), Stage::Idle);
      start = std::max(start, work->start);
      add_segment(tiling, start, std::min(end, work->end), work->stage);
      start = std::min(end, work->end);
    }
    add_segment(tiling, start, end, Stage::Idle);
  }

  const Trace& trace_;
  Timelines timelines_;
  GraphNodes graph_nodes_;
  std::vector<bool> is_nccl_;          // by name
  std::vector<std::int64_t> last_end_; // by step, of its last device event; -1: none
  std::vector<std::pair<std::int64_t, std::int64_t>> waits_;
  std::vector<StageSegment> host_work_; // in order
  TiledTrace result_;
};

} // namespace

std::int64_t step_at(const std::vector<StepRow>& steps, std::int64_t time) {
  const auto next =
      std::upper_bound(steps.begin(), steps.end(), time, [](std::int64_t t, const StepRow& step) {
        return t < step.start;
      });
  return next != steps.begin() && time <= (next - 1)->end ? next - steps.begin() - 1 : -1;
}

TiledTrace tile_trace(const Trace& trace) {
  return trace.on_gpu() ? DeviceTiler(trace).tile() : tile_host(trace);
}

std::vector<StepTiling> tile_steps(const Trace& trace) {
  return tile_trace(trace).steps;
}

} // namespace assay
