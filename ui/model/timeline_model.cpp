#include "ui/model/timeline_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/side.h"
#include "ui/model/telemetry/telemetry_strips.h"
#include "ui/model/workspace.h"

namespace assay {
namespace {

using nlohmann::ordered_json;

const char* word_of(Source source) {
  switch (source) {
  case Source::Stage:
    return "stage";
  case Source::Span:
    return "span";
  case Source::Operator:
    return "operator";
  case Source::Api:
    return "CUDA call";
  case Source::Sync:
    return "wait";
  case Source::Overhead:
    return "profiler overhead";
  case Source::Device:
    return "on the GPU";
  }
  return "";
}

std::string step_words(const TraceView& view, std::size_t step, std::size_t typical) {
  if (step >= view.steps().size()) return "no steps were recorded";
  const StepRow& row = view.steps()[step].step;
  return fmt::format("step {} of {} · round {}{}{}",
                     step + 1,
                     view.steps().size(),
                     row.round,
                     row.counted ? "" : " · warm-up, not counted",
                     step == typical ? " · typical" : "");
}

TimelineSideModel side_model(const Workspace& workspace, std::size_t side) {
  const TraceSlot& slot = workspace.traces[side];
  TimelineSideModel model;
  model.variant = printable(slot.variant);
  model.loading = slot.loading;
  model.why_none = printable(slot.why_none);
  model.loaded = slot.view != nullptr;
  if (!model.loaded) return model;
  const TraceView& view = *slot.view;
  const std::size_t step = workspace.timeline.step[side];
  model.step = step_words(view, step, workspace.timeline.typical[side]);
  if (step < view.steps().size()) model.step_ns = static_cast<double>(view.steps()[step].wall_ns());
  model.events = view.events();
  for (const AuditRow& audit : view.trace().audit)
    if (!audit.passed) model.failed_checks.push_back(printable(audit.check + ": " + audit.detail));
  const TraceView* other = workspace.traces[1 - side].view.get();
  for (const Track& track : view.tracks()) {
    model.tracks.push_back(track.title);
    const auto same = [&](const Track& candidate) { return candidate.role == track.role; };
    if (other != nullptr && std::none_of(other->tracks().begin(), other->tracks().end(), same))
      model.only_here.push_back(track.role);
  }
  for (const TelemetryStrip& strip : telemetry_strips(workspace, side))
    model.telemetry.push_back(strip.title);
  return model;
}

} // namespace

EventWords words_of(const Workspace& workspace, const Selection& selection) {
  const TraceView& view = *workspace.traces[selection.side].view;
  const EventRef event = selection.event;
  EventWords words;
  words.name = printable(view.name(event));
  words.source = word_of(event.source);
  words.start_ns = static_cast<double>(view.start(event) - anchor(workspace, selection.side));
  words.duration_ns = static_cast<double>(view.end(event) - view.start(event));
  const std::size_t step = step_of(view, event);
  words.step = step < view.steps().size() ? fmt::format("step {}", step + 1) : "outside every step";
  if (event.source == Source::Device || event.source == Source::Operator)
    words.stage = to_string(view.kernel_class(event));
  if (const auto call = launch_of(view, event))
    words.launch =
        fmt::format("launched by {} {} before",
                    printable(view.name(*call)),
                    time_text(static_cast<double>(view.start(event) - view.start(*call))));
  return words;
}

std::string partner_words(const Workspace& workspace, const Selection& selection) {
  const auto partner = partner_of(workspace, selection);
  if (!partner) return "no second trace to look for its partner";
  const std::string other =
      side_title(1 - selection.side, workspace.traces[1 - selection.side].variant);
  if (!partner->event)
    return partner->there == 0 ? fmt::format("{} has none of this name in its step", other)
                               : fmt::format("number {} of {} here; {} has only {}",
                                             partner->ordinal + 1,
                                             partner->here,
                                             other,
                                             partner->there);
  const EventWords here = words_of(workspace, selection);
  const EventWords there = words_of(workspace, {1 - selection.side, *partner->event});
  const bool is_b = selection.side == 1;
  const double change = is_b ? here.duration_ns - there.duration_ns
                             : there.duration_ns - here.duration_ns; // candidate - baseline
  return fmt::format(
      "partner in {}: {}; candidate - baseline {}{} (number {} of {} in the baseline's order)",
      other,
      time_text(there.duration_ns),
      change > 0 ? "+" : "",
      time_text(change),
      partner->ordinal + 1,
      partner->here);
}

TimelineModel timeline_model(const Workspace& workspace) {
  const TimelineState& state = workspace.timeline;
  TimelineModel model;
  for (std::size_t side = 0; side < 2; ++side) model.sides[side] = side_model(workspace, side);
  model.align = to_string(state.align);
  model.linked = state.linked;
  model.ghost = state.ghost;
  model.from_ns = state.range[0].from;
  model.span_ns = state.range[0].span;
  if (model.sides[0].step_ns > 0 && model.sides[1].step_ns > 0)
    model.difference_ns = model.sides[1].step_ns - model.sides[0].step_ns;
  if (state.selected && workspace.traces[state.selected->side].view) {
    model.selected = words_of(workspace, *state.selected);
    const auto partner = partner_of(workspace, *state.selected);
    if (partner && partner->event)
      model.partner = words_of(workspace, {1 - state.selected->side, *partner->event});
    model.partner_words = partner_words(workspace, *state.selected);
  }
  const auto& [a, b] = model.sides;
  if (!a.loaded && !b.loaded) {
    if (a.loading || b.loading)
      model.notice = Notice{"Reading the traces", "Lanes appear when the file has been read.", ""};
    else {
      std::string why = a.why_none;
      if (b.why_none != a.why_none && !b.why_none.empty()) why += "\n" + b.why_none;
      model.notice = Notice{"There is no trace to show", why, ""};
    }
  }
  return model;
}

ordered_json to_json(const TimelineModel& model) {
  ordered_json sides = ordered_json::array();
  for (const TimelineSideModel& side : model.sides)
    sides.push_back({{"variant", side.variant},
                     {"step", side.step},
                     {"step_ns", side.step_ns},
                     {"loaded", side.loaded},
                     {"loading", side.loading},
                     {"why_none", side.why_none},
                     {"tracks", side.tracks},
                     {"only_here", side.only_here},
                     {"events", side.events},
                     {"failed_checks", side.failed_checks},
                     {"telemetry", side.telemetry}});
  const auto event = [](const std::optional<EventWords>& words) -> ordered_json {
    if (!words) return nullptr;
    return {{"name", words->name},
            {"source", words->source},
            {"step", words->step},
            {"start_ns", words->start_ns},
            {"duration_ns", words->duration_ns},
            {"class", words->stage},
            {"launch", words->launch}};
  };
  ordered_json all{{"align", model.align},
                   {"linked", model.linked},
                   {"ghost", model.ghost},
                   {"from_ns", model.from_ns},
                   {"span_ns", model.span_ns},
                   {"sides", sides},
                   {"selected", event(model.selected)},
                   {"partner", event(model.partner)},
                   {"partner_words", model.partner_words}};
  all["difference_ns"] =
      model.difference_ns ? ordered_json(*model.difference_ns) : ordered_json(nullptr);
  all["notice"] = model.notice ? ordered_json(model.notice->title) : ordered_json(nullptr);
  return all;
}

} // namespace assay
