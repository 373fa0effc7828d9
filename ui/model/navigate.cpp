#include "ui/model/navigate.h"

#include <algorithm>
#include <cmath>

#include "ui/model/workspace.h"

namespace assay {
namespace {

constexpr double kMargin = 0.02;      // beside a step that is shown whole, as a share of it
constexpr double kShortest = 100;     // ns across the screen
constexpr double kFocusedShare = 0.3; // of the width that a focused event takes

const TraceView* view_of(const Workspace& workspace, std::size_t side) {
  return workspace.traces[side].view.get();
}

template <class Change> void change_ranges(Workspace& workspace, const Change& change) {
  TimelineState& state = workspace.timeline;
  for (std::size_t side = 0; side < 2; ++side)
    if (state.linked || side == state.side) change(state.range[side], side);
}

double longest_step(const Workspace& workspace) {
  double longest = 0;
  for (std::size_t side = 0; side < 2; ++side) {
    const TraceView* view = view_of(workspace, side);
    if (view == nullptr) continue;
    const std::size_t step = workspace.timeline.step[side];
    longest = std::max(longest,
                       step < view->steps().size()
                           ? static_cast<double>(view->steps()[step].wall_ns())
                           : static_cast<double>(view->last_time() - view->first_time()));
  }
  return std::max(longest, kShortest);
}

std::optional<EventRef>
first_in_step(const TraceView& view, std::size_t step, const std::string& name) {
  const auto id = view.find_name(name);
  if (!id) return std::nullopt;
  for (const Source source : {Source::Device, Source::Operator, Source::Span}) {
    const TraceView::Occurrences all = view.occurrences(source, *id);
    const StepSpan span = span_of_step(view, step, source);
    for (std::size_t i = 0; i < all.count; ++i) {
      const EventRef event{source, all.first[i]};
      if (view.start(event) >= span.start && view.start(event) < span.end) return event;
    }
  }
  return std::nullopt;
}

// The lane and place of an event.
const Lane* lane_of(const TraceView& view, EventRef event, std::size_t& place) {
  for (const Track& track : view.tracks()) {
    if (track.source != event.source) continue;
    for (const Lane& lane : track.lanes) {
      const std::size_t i = lane.at(view.start(event));
      for (std::size_t at = i; at < lane.size() && lane.start(at) == view.start(event); ++at)
        if (lane.event(at) == event.index) {
          place = at;
          return &lane;
        }
      if (i > 0 && i <= lane.size() && lane.event(i - 1) == event.index) {
        place = i - 1; // an event without a duration
        return &lane;
      }
    }
  }
  return nullptr;
}

// Moves the range so that the event is in sight, without a change of scale.
void reveal(Workspace& workspace, std::size_t side, EventRef event) {
  const TraceView& view = *view_of(workspace, side);
  const double start = static_cast<double>(view.start(event) - anchor(workspace, side));
  const double end = static_cast<double>(view.end(event) - anchor(workspace, side));
  const TimeRange range = workspace.timeline.range[side];
  if (start >= range.from && end <= range.from + range.span) return;
  show_range(workspace, side, (start + end) / 2 - range.span / 2, range.span);
}

} // namespace

void trace_arrived(Workspace& workspace, std::size_t side) {
  TimelineState& state = workspace.timeline;
  const TraceView* a = view_of(workspace, 0);
  const TraceView* b = view_of(workspace, 1);
  const TraceView& arrived = *view_of(workspace, side);
  state.typical[side] = arrived.representative();
  if (a != nullptr && b != nullptr)
    state.typical =
        representative_pair(*a, *b).value_or(std::array{a->representative(), b->representative()});
  state.step = state.typical;
  state.fit = true;
  if (!workspace.find_name.empty() && find_name(workspace, workspace.find_name))
    workspace.find_name.clear();
}

void set_step(Workspace& workspace, std::size_t side, std::size_t step) {
  const TraceView* view = view_of(workspace, side);
  const TraceView* other = view_of(workspace, 1 - side);
  if (view == nullptr || step >= view->steps().size()) return;
  TimelineState& state = workspace.timeline;
  state.step[side] = step;
  if (state.linked && other != nullptr)
    state.step[1 - side] = paired_step(*view, step, *other).value_or(state.step[1 - side]);
  state.selected.reset();
  state.area.reset();
  if (state.align == Align::Free) fit_step(workspace);
}

void move_step(Workspace& workspace, std::ptrdiff_t by) {
  std::size_t side = workspace.timeline.linked ? 0 : workspace.timeline.side;
  if (view_of(workspace, side) == nullptr) side = 1 - side;
  const TraceView* view = view_of(workspace, side);
  if (view == nullptr || view->steps().empty()) return;
  const auto last = static_cast<std::ptrdiff_t>(view->steps().size()) - 1;
  const auto wanted = static_cast<std::ptrdiff_t>(workspace.timeline.step[side]) + by;
  set_step(workspace, side, static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(wanted, 0, last)));
}

void representative_step(Workspace& workspace) {
  const std::size_t side = view_of(workspace, 0) != nullptr ? 0 : 1;
  set_step(workspace, side, workspace.timeline.typical[side]);
}

void fit_step(Workspace& workspace) {
  const double span = longest_step(workspace);
  TimelineState& state = workspace.timeline;
  change_ranges(workspace, [&](TimeRange& range, std::size_t side) {
    const TraceView* view = view_of(workspace, side);
    double from = 0;
    if (view != nullptr && state.step[side] < view->steps().size())
      from = static_cast<double>(view->steps()[state.step[side]].start - anchor(workspace, side));
    range = {from - kMargin * span, (1 + 2 * kMargin) * span};
  });
  if (state.linked && state.align != Align::Free)
    state.range[1] = state.range[0] = {std::min(state.range[0].from, state.range[1].from),
                                       std::max(state.range[0].span, state.range[1].span)};
}

void fit_run(Workspace& workspace) {
  double from = 0, to = kShortest;
  for (std::size_t side = 0; side < 2; ++side)
    if (const TraceView* view = view_of(workspace, side)) {
      from = std::min(from, static_cast<double>(view->first_time() - anchor(workspace, side)));
      to = std::max(to, static_cast<double>(view->last_time() - anchor(workspace, side)));
    }
  change_ranges(workspace, [&](TimeRange& range, std::size_t) { range = {from, to - from}; });
}

void zoom(Workspace& workspace, double factor, double at) {
  change_ranges(workspace, [&](TimeRange& range, std::size_t side) {
    const TraceView* view = view_of(workspace, side);
    const double whole =
        view == nullptr ? 1e9 : static_cast<double>(view->last_time() - view->first_time());
    const double span = std::clamp(range.span * factor, kShortest, std::max(kShortest, 4 * whole));
    range.from += at * (range.span - span);
    range.span = span;
  });
}

void pan(Workspace& workspace, double share) {
  change_ranges(workspace, [&](TimeRange& range, std::size_t side) {
    const TraceView* view = view_of(workspace, side);
    range.from += share * range.span;
    if (view == nullptr) return;
    // The trace never leaves the screen altogether.
    const double first = static_cast<double>(view->first_time() - anchor(workspace, side));
    const double last = static_cast<double>(view->last_time() - anchor(workspace, side));
    range.from =
        std::clamp(range.from, first - range.span / 2, std::max(first, last) - range.span / 2);
  });
}

void show_range(Workspace& workspace, std::size_t side, double from, double span) {
  TimelineState& state = workspace.timeline;
  const TimeRange before = state.range[side];
  change_ranges(workspace, [&](TimeRange& range, std::size_t of) {
    range.from = of == side ? from : range.from + (from - before.from);
    range.span = std::max(kShortest, span);
  });
  if (!state.linked) state.range[side] = {from, std::max(kShortest, span)};
}

void cycle_align(Workspace& workspace) {
  Align& align = workspace.timeline.align;
  align = align == Align::StepStart    ? Align::StageStart
          : align == Align::StageStart ? Align::Free
                                       : Align::StepStart;
  fit_step(workspace);
}

void select_event(Workspace& workspace, std::size_t side, EventRef event) {
  const TraceView& view = *view_of(workspace, side);
  const std::size_t step = step_of(view, event);
  if (step < view.steps().size() && step != workspace.timeline.step[side])
    set_step(workspace, side, step);
  workspace.timeline.selected = Selection{side, event};
  workspace.timeline.side = side;
  if (event.source == Source::Stage) workspace.stage = view.segments()[event.index].stage;
}

void focus_on(Workspace& workspace, std::size_t side, std::int64_t start, std::int64_t end) {
  const double from = static_cast<double>(start - anchor(workspace, side));
  const double duration = static_cast<double>(end - start);
  const double span = std::max(kShortest, duration / kFocusedShare);
  show_range(workspace, side, from + duration / 2 - span / 2, span);
}

void focus_selected(Workspace& workspace) {
  if (!workspace.timeline.selected) return;
  const auto [side, event] = *workspace.timeline.selected;
  const TraceView& view = *view_of(workspace, side);
  focus_on(workspace, side, view.start(event), view.end(event));
}

void next_same(Workspace& workspace, std::ptrdiff_t by) {
  if (!workspace.timeline.selected) return;
  const auto [side, event] = *workspace.timeline.selected;
  const TraceView& view = *view_of(workspace, side);
  if (event.source == Source::Stage) return;
  const TraceView::Occurrences all = view.occurrences(event.source, view.name_id(event));
  const auto at = std::find(all.first, all.first + all.count, event.index) - all.first;
  const auto wanted =
      std::clamp<std::ptrdiff_t>(at + by, 0, static_cast<std::ptrdiff_t>(all.count) - 1);
  const EventRef found{event.source, all.first[wanted]};
  select_event(workspace, side, found);
  reveal(workspace, side, found);
}

void neighbour(Workspace& workspace, std::ptrdiff_t by) {
  if (!workspace.timeline.selected) return;
  const auto [side, event] = *workspace.timeline.selected;
  const TraceView& view = *view_of(workspace, side);
  std::size_t place = 0;
  const Lane* lane = lane_of(view, event, place);
  if (lane == nullptr) return;
  const auto wanted = std::clamp<std::ptrdiff_t>(
      static_cast<std::ptrdiff_t>(place) + by, 0, static_cast<std::ptrdiff_t>(lane->size()) - 1);
  const EventRef found{event.source, lane->event(static_cast<std::size_t>(wanted))};
  select_event(workspace, side, found);
  reveal(workspace, side, found);
}

bool find_name(Workspace& workspace, const std::string& name) {
  for (const std::size_t side : {std::size_t{1}, std::size_t{0}}) {
    const TraceView* view = view_of(workspace, side);
    if (view == nullptr) continue;
    const auto event = first_in_step(*view, workspace.timeline.step[side], name);
    if (!event) continue;
    select_event(workspace, side, *event);
    workspace.timeline.fit = true; // the whole step, with the event marked in it
    return true;
  }
  return false;
}

std::optional<Partner> partner_of(const Workspace& workspace, const Selection& selection) {
  const TraceView* here = view_of(workspace, selection.side);
  const TraceView* there = view_of(workspace, 1 - selection.side);
  if (here == nullptr || there == nullptr) return std::nullopt;
  return find_partner(*here, selection.event, *there, workspace.timeline.step[1 - selection.side]);
}

} // namespace assay
