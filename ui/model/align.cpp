#include "ui/model/align.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/statistics/statistics.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

// ns: the stages of A's step, those of B's, and B's step less A's.
using PairFigures = std::array<double, 2 * kStages + 1>;

struct StepPair {
  std::array<std::size_t, 2> steps{};
  PairFigures figures{};
};

PairFigures figures_of(const StepTiling& a, const StepTiling& b) {
  PairFigures figures{};
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    figures[stage] = static_cast<double>(a.stage_ns[stage]);
    figures[kStages + stage] = static_cast<double>(b.stage_ns[stage]);
  }
  figures.back() = static_cast<double>(b.wall_ns() - a.wall_ns());
  return figures;
}

struct Within { // same-named events of a step, in order
  std::vector<EventRef> events;
};

Within stages_within(const TraceView& view, Stage stage, StepSpan span) {
  Within found;
  const std::vector<StageSegment>& all = view.segments();
  const auto first = std::partition_point(
      all.begin(), all.end(), [&](const StageSegment& s) { return s.start < span.start; });
  for (auto at = first; at != all.end() && at->start < span.end; ++at)
    if (at->stage == stage)
      found.events.push_back({Source::Stage, static_cast<std::uint32_t>(at - all.begin())});
  return found;
}

Within within(const TraceView& view, Source source, NameId name, StepSpan span) {
  Within found;
  const TraceView::Occurrences all = view.occurrences(source, name);
  const auto before = [&](std::uint32_t index, std::int64_t time) {
    return view.start({source, index}) < time;
  };
  const std::uint32_t* const last = all.first + all.count;
  for (const std::uint32_t* at = std::lower_bound(all.first, last, span.start, before);
       at != last && view.start({source, *at}) < span.end;
       ++at)
    found.events.push_back({source, *at});
  return found;
}

} // namespace

std::int64_t anchor(const Workspace& workspace, std::size_t side) {
  const TraceView* view = workspace.traces[side].view.get();
  if (view == nullptr) return 0;
  const TimelineState& state = workspace.timeline;
  const std::size_t step = state.step[side];
  if (state.align == Align::Free || step >= view->steps().size()) return view->first_time();
  const StepTiling& tiling = view->steps()[step];
  if (state.align == Align::StageStart)
    for (const StageSegment& segment : tiling.segments)
      if (segment.stage == workspace.stage.value_or(Stage::Forward)) return segment.start;
  return tiling.start;
}

std::optional<std::size_t>
paired_step(const TraceView& from, std::size_t step, const TraceView& to) {
  if (step >= from.steps().size()) return std::nullopt;
  const StepRow& wanted = from.steps()[step].step;
  for (std::size_t i = 0; i < to.steps().size(); ++i) {
    const StepRow& other = to.steps()[i].step;
    if (other.round == wanted.round && other.position == wanted.position) return i;
  }
  return std::nullopt;
}

std::optional<std::array<std::size_t, 2>> representative_pair(const TraceView& a,
                                                              const TraceView& b) {
  std::vector<StepPair> pairs;
  for (std::size_t i = 0; i < a.steps().size(); ++i) {
    const std::optional<std::size_t> partner = paired_step(a, i, b);
    if (!partner || !a.steps()[i].step.counted || !b.steps()[*partner].step.counted) continue;
    pairs.push_back({{i, *partner}, figures_of(a.steps()[i], b.steps()[*partner])});
  }
  if (pairs.empty()) return std::nullopt;
  PairFigures typical{};
  for (std::size_t figure = 0; figure < typical.size(); ++figure) {
    std::vector<double> values;
    for (const StepPair& pair : pairs) values.push_back(pair.figures[figure]);
    typical[figure] = median(std::move(values));
  }
  const StepPair* best = nullptr;
  double least = std::numeric_limits<double>::max();
  for (const StepPair& pair : pairs) {
    if (pair.figures.back() * typical.back() < 0) continue; // the other way round than most
    double distance = 0;
    for (std::size_t figure = 0; figure < typical.size(); ++figure)
      distance += std::abs(pair.figures[figure] - typical[figure]);
    if (distance < least) {
      least = distance;
      best = &pair;
    }
  }
  return best->steps;
}

StepSpan span_of_step(const TraceView& view, std::size_t step, Source source) {
  if (step >= view.steps().size()) return {view.first_time(), view.last_time() + 1};
  const StepTiling& tiling = view.steps()[step];
  if (source == Source::Device || source == Source::Stage) return {tiling.start, tiling.end};
  return {tiling.step.start, tiling.step.end};
}

std::size_t step_of(const TraceView& view, EventRef event) {
  const std::int64_t time = view.start(event);
  const auto& steps = view.steps();
  const auto holds = [&](std::size_t i) {
    const StepSpan span = span_of_step(view, i, event.source);
    return span.start <= time && time < span.end;
  };
  const auto after = std::partition_point(steps.begin(), steps.end(), [&](const StepTiling& step) {
    return (event.source == Source::Device || event.source == Source::Stage
                ? step.end
                : step.step.end) <= time;
  });
  const auto i = static_cast<std::size_t>(after - steps.begin());
  return i < steps.size() && holds(i) ? i : steps.size();
}

Partner
find_partner(const TraceView& from, EventRef event, const TraceView& to, std::size_t to_step) {
  Partner partner;
  const StepSpan here = span_of_step(from, step_of(from, event), event.source);
  const StepSpan there = span_of_step(to, to_step, event.source);
  Within mine, theirs;
  if (event.source == Source::Stage) {
    const Stage stage = from.segments()[event.index].stage;
    mine = stages_within(from, stage, here);
    theirs = stages_within(to, stage, there);
  } else {
    mine = within(from, event.source, from.name_id(event), here);
    if (const auto name = to.find_name(from.name(event)))
      theirs = within(to, event.source, *name, there);
  }
  partner.here = mine.events.size();
  partner.there = theirs.events.size();
  partner.ordinal = static_cast<std::size_t>(
      std::find(mine.events.begin(), mine.events.end(), event) - mine.events.begin());
  if (partner.ordinal < theirs.events.size()) partner.event = theirs.events[partner.ordinal];
  return partner;
}

std::optional<EventRef> launch_of(const TraceView& view, EventRef event) {
  if (event.source != Source::Device) return std::nullopt;
  const DeviceEvent& device = view.trace().device[event.index];
  const std::vector<HostEvent>& calls = view.trace().api;
  // Backwards from the event's start: its call is near, or a queue's length before it.
  auto at = static_cast<std::size_t>(
      std::partition_point(calls.begin(),
                           calls.end(),
                           [&](const HostEvent& call) { return call.start <= device.start; }) -
      calls.begin());
  constexpr std::size_t kLongestQueue = 100'000; // bounds what one frame does
  for (std::size_t seen = 0; at > 0 && seen < kLongestQueue; ++seen)
    if (calls[--at].correlation == device.correlation)
      return EventRef{Source::Api, static_cast<std::uint32_t>(at)};
  return std::nullopt;
}

} // namespace assay
