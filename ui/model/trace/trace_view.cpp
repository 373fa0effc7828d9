#include "ui/model/trace/trace_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "core/statistics/statistics.h"
#include "core/text.h"
#include "core/trace/kernel_name.h"
#include "experiments/attribution/kernel_class.h"
#include "experiments/attribution/stage_timeline.h"

namespace assay {
namespace {

constexpr std::size_t kMaxLanes = 12; // of one track; deeper nesting is counted in its title
constexpr std::array<std::string_view, kKernelClasses> kClassNames{
    "gemm", "attention", "norm", "elementwise", "reduction", "copy", "nccl", "other"};

const std::vector<HostEvent>& host_list(const Trace& trace, Source source) {
  switch (source) {
  case Source::Operator:
    return trace.operators;
  case Source::Api:
    return trace.api;
  case Source::Sync:
    return trace.syncs;
  case Source::Overhead:
    return trace.overhead;
  default:
    return trace.spans;
  }
}

const char* words_of(Source source) {
  switch (source) {
  case Source::Span:
    return "spans";
  case Source::Operator:
    return "operators";
  case Source::Api:
    return "CUDA calls";
  case Source::Sync:
    return "waits";
  case Source::Overhead:
    return "profiler overhead";
  default:
    return "";
  }
}

// Position of each key when keys are ordered by how many events they have.
template <class Key>
std::map<Key, std::size_t> by_weight(const std::map<Key, std::size_t>& counts) {
  std::vector<std::pair<std::size_t, Key>> order;
  for (const auto& [key, count] : counts) order.emplace_back(count, key);
  std::stable_sort(
      order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::map<Key, std::size_t> ranks;
  for (const auto& [count, key] : order) ranks.emplace(key, ranks.size());
  return ranks;
}

} // namespace

std::string_view to_string(KernelClass kind) {
  return kClassNames[static_cast<std::size_t>(kind)];
}

KernelClass kernel_class_from(std::string_view name) {
  const auto at = std::find(kClassNames.begin(), kClassNames.end(), name);
  if (at == kClassNames.end()) return KernelClass::Other;
  return static_cast<KernelClass>(at - kClassNames.begin());
}

TraceView::TraceView(Trace trace) : trace_(std::move(trace)), steps_(tile_steps(trace_)) {
  for (std::size_t stage = 0; stage < kStages; ++stage)
    stage_names_.emplace_back(to_string(static_cast<Stage>(stage)));
  for (const std::string& name : trace_.names) {
    short_names_.push_back(printable(short_kernel_name(name)));
    classes_.push_back(kernel_class_from(assay::kernel_class(name)));
    ids_.emplace(name, static_cast<NameId>(short_names_.size() - 1));
  }
  add_stage_track();
  add_device_tracks();
  add_host_tracks();
  index_names();
  find_representative();
  sum_up_telemetry();
  first_ = std::numeric_limits<std::int64_t>::max();
  const auto include = [&](std::int64_t from, std::int64_t to) {
    first_ = std::min(first_, from);
    last_ = std::max(last_, to);
  };
  for (const StepTiling& step : steps_) include(step.start, step.end);
  for (const Track& track : tracks_)
    for (const Lane& lane : track.lanes) include(lane.start(0), lane.end(lane.size() - 1));
  if (first_ > last_) first_ = last_ = 0;
  for (const Track& track : tracks_)
    if (track.source != Source::Stage) events_ += track.events;
}

void TraceView::add_track(std::string role,
                          std::string title,
                          Source source,
                          const std::vector<std::uint32_t>& events) {
  LaneStack stack(kMaxLanes);
  for (const std::uint32_t index : events)
    stack.add(start({source, index}), end({source, index}), index, tag({source, index}));
  Track track{std::move(role), std::move(title), source, stack.finish(), events.size(), ""};
  if (stack.without_time() > 0)
    track.left_out = fmt::format("{} without a time", stack.without_time());
  if (stack.without_lane() > 0)
    track.left_out += fmt::format("{}{} nested deeper than {} rows",
                                  track.left_out.empty() ? "" : ", ",
                                  stack.without_lane(),
                                  kMaxLanes);
  if (!track.lanes.empty()) tracks_.push_back(std::move(track));
}

void TraceView::add_stage_track() {
  std::vector<std::uint32_t> all;
  for (const StepTiling& step : steps_)
    for (const StageSegment& segment : step.segments) {
      if (!segments_.empty() && segment.start < segments_.back().end) continue; // steps overlap
      all.push_back(static_cast<std::uint32_t>(segments_.size()));
      segments_.push_back(segment);
    }
  add_track("stages", "stages", Source::Stage, all);
}

// Streams are matched by rank: the busiest stream of a device in A is drawn beside the busiest in
// B.
void TraceView::add_device_tracks() {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> counts;
  for (const DeviceEvent& event : trace_.device)
    if (event.kind == DeviceKind::Kernel) ++counts[{event.device, event.stream}];
  const auto ranks = by_weight(counts);
  std::map<std::pair<std::size_t, std::pair<std::uint32_t, std::uint32_t>>,
           std::vector<std::uint32_t>>
      kernels;
  std::map<std::uint32_t, std::vector<std::uint32_t>> copies;
  for (std::size_t i = 0; i < trace_.device.size(); ++i) {
    const DeviceEvent& event = trace_.device[i];
    const auto index = static_cast<std::uint32_t>(i);
    const std::pair<std::uint32_t, std::uint32_t> key{event.device, event.stream};
    if (event.kind == DeviceKind::Kernel)
      kernels[{ranks.at(key), key}].push_back(index);
    else
      copies[event.device].push_back(index);
  }
  for (const auto& [key, events] : kernels)
    add_track(fmt::format("gpu {} stream {}", key.second.first, key.first),
              fmt::format("GPU {} stream {}", key.second.first, key.second.second),
              Source::Device,
              events);
  for (const auto& [device, events] : copies)
    add_track(fmt::format("gpu {} copies", device),
              fmt::format("GPU {} copies, sets", device),
              Source::Device,
              events);
}

// The steps' thread comes first, the others by their number of events.
void TraceView::add_host_tracks() {
  std::map<std::uint16_t, std::size_t> counts;
  for (const Source source :
       {Source::Span, Source::Operator, Source::Api, Source::Sync, Source::Overhead})
    for (const HostEvent& event : host_list(trace_, source)) ++counts[event.thread];
  for (auto& [thread, count] : counts)
    if (!trace_.steps.empty() && trace_.threads[thread] == trace_.steps[0].global_tid)
      count = std::numeric_limits<std::size_t>::max();
  const auto ranks = by_weight(counts);
  std::vector<std::pair<std::size_t, std::uint16_t>> order;
  for (const auto& [thread, rank] : ranks) order.emplace_back(rank, thread);
  std::sort(order.begin(), order.end());
  for (const auto& [rank, thread] : order)
    for (const Source source :
         {Source::Span, Source::Operator, Source::Api, Source::Sync, Source::Overhead}) {
      std::vector<std::uint32_t> events;
      const std::vector<HostEvent>& list = host_list(trace_, source);
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].thread == thread && list[i].end > 0)
          events.push_back(static_cast<std::uint32_t>(i));
      const std::string place =
          rank == 0 ? "main" : fmt::format("thread {}", tid_of(trace_.threads[thread]));
      add_track(fmt::format("{} {}", rank, words_of(source)),
                fmt::format("{} {}", place, words_of(source)),
                source,
                events);
    }
}

void TraceView::index_names() {
  by_name_.resize(kSources);
  const auto index = [&](Source source, std::size_t count) {
    ByName& list = by_name_[static_cast<std::size_t>(source)];
    list.offsets.assign(trace_.names.size() + 1, 0);
    list.events.resize(count);
    const auto name = [&](std::size_t i) {
      return name_id({source, static_cast<std::uint32_t>(i)});
    };
    for (std::size_t i = 0; i < count; ++i) ++list.offsets[name(i) + 1];
    for (std::size_t i = 1; i < list.offsets.size(); ++i) list.offsets[i] += list.offsets[i - 1];
    std::vector<std::uint32_t> next = list.offsets;
    for (std::size_t i = 0; i < count; ++i)
      list.events[next[name(i)]++] = static_cast<std::uint32_t>(i);
  };
  for (const Source source :
       {Source::Span, Source::Operator, Source::Api, Source::Sync, Source::Overhead})
    index(source, host_list(trace_, source).size());
  index(Source::Device, trace_.device.size());
}

void TraceView::find_representative() {
  std::array<double, kStages> typical{};
  std::vector<std::size_t> counted;
  for (std::size_t i = 0; i < steps_.size(); ++i)
    if (steps_[i].step.counted) counted.push_back(i);
  if (counted.empty()) return;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::vector<double> times;
    for (const std::size_t i : counted)
      times.push_back(static_cast<double>(steps_[i].stage_ns[stage]));
    typical[stage] = median(std::move(times));
  }
  double best = std::numeric_limits<double>::max();
  for (const std::size_t i : counted) {
    double distance = 0;
    for (std::size_t stage = 0; stage < kStages; ++stage)
      distance += std::abs(static_cast<double>(steps_[i].stage_ns[stage]) - typical[stage]);
    if (distance < best) {
      best = distance;
      representative_ = i;
    }
  }
}

void TraceView::sum_up_telemetry() {
  for (const TelemetrySeries& series : trace_.telemetry) {
    SeriesSummary summary;
    if (!series.value.empty()) {
      summary.mean = mean(series.value);
      summary.p5 = quantile(series.value, 0.05);
      summary.p95 = quantile(series.value, 0.95);
    }
    std::vector<double> gaps;
    for (std::size_t i = 1; i < series.time.size(); ++i)
      gaps.push_back(static_cast<double>(series.time[i] - series.time[i - 1]));
    if (!gaps.empty()) summary.spacing_ns = static_cast<std::int64_t>(median(std::move(gaps)));
    series_.push_back(summary);
  }
}

std::int64_t TraceView::start(EventRef event) const {
  if (event.source == Source::Stage) return segments_[event.index].start;
  if (event.source == Source::Device) return trace_.device[event.index].start;
  return host_list(trace_, event.source)[event.index].start;
}

std::int64_t TraceView::end(EventRef event) const {
  if (event.source == Source::Stage) return segments_[event.index].end;
  if (event.source == Source::Device) return trace_.device[event.index].end;
  return host_list(trace_, event.source)[event.index].end;
}

NameId TraceView::name_id(EventRef event) const {
  if (event.source == Source::Device) return trace_.device[event.index].name;
  return host_list(trace_, event.source)[event.index].name;
}

const std::string& TraceView::name(EventRef event) const {
  if (event.source == Source::Stage)
    return stage_names_[static_cast<std::size_t>(segments_[event.index].stage)];
  return trace_.names[name_id(event)];
}

const std::string& TraceView::short_name(EventRef event) const {
  if (event.source == Source::Stage) return name(event);
  return short_names_[name_id(event)];
}

KernelClass TraceView::kernel_class(EventRef event) const {
  return event.source == Source::Stage ? KernelClass::Other : classes_[name_id(event)];
}

std::optional<Stage> TraceView::stage_of_span(EventRef event) const {
  if (event.source == Source::Stage) return segments_[event.index].stage;
  return assay::stage_of_span(name(event));
}

std::uint8_t TraceView::tag(EventRef event) const {
  switch (event.source) {
  case Source::Stage:
    return static_cast<std::uint8_t>(segments_[event.index].stage);
  case Source::Span: {
    const std::optional<Stage> stage = stage_of_span(event);
    return stage ? static_cast<std::uint8_t>(*stage) : kNoTag;
  }
  case Source::Device:
  case Source::Operator:
    return static_cast<std::uint8_t>(kernel_class(event));
  default:
    return kNoTag;
  }
}

std::optional<NameId> TraceView::find_name(std::string_view name) const {
  const auto at = ids_.find(name);
  if (at == ids_.end()) return std::nullopt;
  return at->second;
}

TraceView::Occurrences TraceView::occurrences(Source source, NameId name) const {
  const ByName& list = by_name_[static_cast<std::size_t>(source)];
  if (list.offsets.empty()) return {};
  return {list.events.data() + list.offsets[name], list.offsets[name + 1] - list.offsets[name]};
}

std::size_t TraceView::step_at(std::int64_t time) const {
  const auto after = std::partition_point(
      steps_.begin(), steps_.end(), [&](const StepTiling& step) { return step.end <= time; });
  if (after == steps_.end() || after->start > time) return steps_.size();
  return static_cast<std::size_t>(after - steps_.begin());
}

} // namespace assay
