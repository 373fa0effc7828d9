// Timeline: A above B on one ruler, and below them what is selected.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "imgui.h"
#include "ui/model/area.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/side.h"
#include "ui/model/timeline_model.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/trace_colors.h"
#include "ui/style/widgets.h"
#include "ui/timeline/draw.h"
#include "ui/timeline/gap_list.h"
#include "ui/timeline/mouse.h"
#include "ui/timeline/telemetry_strip.h"

namespace assay {
namespace {

constexpr float kRowHeight = 1.35F; // em
constexpr float kLeastRows = 6;     // of lanes, before telemetry takes room
constexpr float kLeastEach = 6.8F;  // em, of a trace; where two are too high they scroll
constexpr float kLeastSide = 14;    // em, of a trace, before the list of gaps does

void draw_bar(Workspace& workspace, const TimelineModel& model, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  mark_target(workspace, "timeline.align");
  if (link(colors.accent, "align: " + model.align)) cycle_align(workspace);
  ImGui::SameLine(0, em);
  if (link(colors.accent, model.linked ? "linked" : "not linked"))
    workspace.timeline.linked = !workspace.timeline.linked;
  ImGui::SameLine(0, em);
  if (link(colors.accent, model.ghost ? "ghost on" : "ghost off"))
    workspace.timeline.ghost = !workspace.timeline.ghost;
  if (workspace.stage) {
    ImGui::SameLine(0, em);
    if (link(colors.accent, fmt::format("stage {} ✕", to_string(*workspace.stage))))
      workspace.stage.reset();
  }
  if (model.difference_ns) {
    ImGui::SameLine(0, em);
    text_cut(colors.text,
             fmt::format("these two steps: candidate - baseline {}{}",
                         *model.difference_ns > 0 ? "+" : "",
                         time_text(*model.difference_ns)));
  }
}

void draw_side_header(const TimelineSideModel& side, std::size_t index, const Palette& colors) {
  side_mark(colors, index);
  std::string words = side_title(index, side.variant);
  if (side.loaded) words += fmt::format(" · {} · {}", side.step, time_text(side.step_ns));
  text_cut(colors.text, words);
  for (const std::string& check : side.failed_checks)
    text_cut(colors.warning, "! this trace did not pass its audit: " + check);
}

void draw_absent(const TimelineSideModel& side, const Palette& colors) {
  if (side.loading)
    text(colors.muted, "Reading this trace …");
  else if (!side.why_none.empty())
    text_wrapped(colors.warning, side.why_none);
}

void draw_trace(Workspace& workspace,
                std::size_t side,
                float height,
                std::vector<SideFrame>& frames) {
  const TraceView& view = *workspace.traces[side].view;
  const float em = ImGui::GetFontSize();
  const float gutter = std::min(12 * em, ImGui::GetContentRegionAvail().x * 0.2F);
  const float scroll = ImGui::GetStyle().ScrollbarSize;
  const float width = std::max(em, ImGui::GetContentRegionAvail().x - gutter - scroll);
  const float top = ImGui::GetCursorPosY();
  draw_step_strip(workspace, side, gutter, width);
  draw_ruler(workspace, side, gutter, width);
  const float room = height - (ImGui::GetCursorPosY() - top);
  const float strip = telemetry_strip_height() + ImGui::GetStyle().ItemSpacing.y;
  std::vector<TelemetryStrip> strips = telemetry_strips(workspace, side);
  const float spare = (room - kLeastRows * kRowHeight * em) / strip - 0.5F; // for strips
  strips.resize(std::min(strips.size(), static_cast<std::size_t>(std::max(0.0F, spare))));
  const float below = strips.empty() ? 0 : em / 2 + static_cast<float>(strips.size()) * strip;
  const float left = room - below;
  const std::string id = fmt::format("lanes{}", side);
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoBackground |
                                 ImGuiWindowFlags_AlwaysVerticalScrollbar |
                                 ImGuiWindowFlags_NoScrollWithMouse;
  if (ImGui::BeginChild(id.c_str(), ImVec2(0, std::max(2 * em, left)), 0, flags)) {
    SideFrame frame;
    frame.side = side;
    frame.row = kRowHeight * em;
    frame.gutter = gutter;
    frame.width = width;
    frame.height = ImGui::GetWindowHeight();
    frame.corner = ImGui::GetWindowPos();
    if (ImGui::IsWindowHovered() && ImGui::GetIO().MouseWheel != 0 && !wheel_zooms(workspace))
      ImGui::SetScrollY(ImGui::GetScrollY() - ImGui::GetIO().MouseWheel * 3 * frame.row);
    if (workspace.timeline.scroll_rows != 0)
      ImGui::SetScrollY(ImGui::GetScrollY() + workspace.timeline.scroll_rows * frame.row);
    frame.first_row = ImGui::GetScrollY() / frame.row;
    LayoutRequest request;
    const TimeRange range = workspace.timeline.range[side];
    request.from = anchor(workspace, side) + static_cast<std::int64_t>(std::floor(range.from));
    request.to = request.from + static_cast<std::int64_t>(std::max(1.0, range.span));
    request.width = width;
    request.first_row = frame.first_row;
    request.last_row = frame.first_row + frame.height / frame.row;
    frame.layout = lay_out(view, request);
    ImGui::Dummy(ImVec2(1, static_cast<float>(frame.layout.rows) * frame.row));
    draw_lanes(workspace, frame);
    handle_mouse(workspace, frame);
    frames.push_back(std::move(frame));
  }
  ImGui::EndChild();
  draw_telemetry_strips(workspace, side, strips, gutter, width);
}

void draw_sides(Workspace& workspace,
                const TimelineModel& model,
                bool both,
                float height,
                std::vector<SideFrame>& frames) {
  const Palette& colors = palette(workspace.theme);
  const float each = std::max(both ? height / 2 : height, kLeastEach * ImGui::GetFontSize());
  const ImGuiWindowFlags flags = ImGuiWindowFlags_NoBackground | ImGuiWindowFlags_NoScrollWithMouse;
  if (ImGui::BeginChild("sides", ImVec2(0, std::max(1.0F, height)), 0, flags)) {
    for (const std::size_t place : {std::size_t{0}, std::size_t{1}}) {
      const std::size_t side = workspace.timeline.swapped ? 1 - place : place;
      if (!both && side == 1) continue;
      const float top = ImGui::GetCursorPosY();
      draw_side_header(model.sides[side], side, colors);
      if (workspace.traces[side].view)
        draw_trace(workspace, side, each - (ImGui::GetCursorPosY() - top), frames);
      else
        draw_absent(model.sides[side], colors);
      ImGui::SetCursorPosY(top + each);
    }
    ImGui::Dummy(ImVec2(0, 0)); // the last position counts as content
  }
  ImGui::EndChild();
}

void draw_selected(const Workspace& workspace, const TimelineModel& model, const Palette& colors) {
  if (const auto area = area_summary(workspace)) {
    for (std::size_t side = 0; side < 2; ++side) {
      if (area->sides[side].empty()) continue;
      side_mark(colors, side);
      text_cut(colors.text, area->sides[side]);
    }
    return;
  }
  if (!model.selected) {
    text_cut(
        colors.muted,
        "click an event to see its partner · drag to measure · Ctrl + wheel zooms · [ ] step · "
        "0 whole step · ? all keys");
    return;
  }
  const EventWords& words = *model.selected;
  side_mark(colors, workspace.timeline.selected->side);
  text_cut(colors.text, words.name);
  text_cut(colors.text,
           fmt::format("{}{} · {} · lasts {} · from {}{}",
                       words.source,
                       words.stage.empty() ? "" : ", " + words.stage,
                       words.step,
                       time_text(words.duration_ns),
                       time_text(words.start_ns),
                       words.launch.empty() ? "" : " · " + words.launch));
  text_cut(colors.muted, model.partner_words);
}

} // namespace

void draw_timeline(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  if (workspace.timeline.fit && (workspace.traces[0].view || workspace.traces[1].view)) {
    fit_step(workspace);
    workspace.timeline.fit = false;
  }
  const TimelineModel model = timeline_model(workspace);
  if (model.notice) {
    const bool failed = !workspace.traces[0].loading && !workspace.traces[1].loading;
    notice(colors, *model.notice, failed && workspace.single_trace);
    return;
  }
  draw_bar(workspace, model, colors);
  ImGui::Separator();
  const bool both = !workspace.single_trace || !workspace.other_path.empty();
  const float below = 3.6F * ImGui::GetTextLineHeightWithSpacing();
  const float sides = both ? 2 : 1;
  const float room =
      ImGui::GetContentRegionAvail().y - below - ImGui::GetStyle().ItemSpacing.y; // after them
  const float gaps = gap_list_height(workspace, room - sides * kLeastSide * ImGui::GetFontSize());
  std::vector<SideFrame> frames;
  workspace.timeline.hovered.reset();
  draw_sides(workspace, model, both, room - gaps, frames);
  workspace.timeline.scroll_rows = 0;
  show_tooltip(workspace, frames);
  ImGui::Separator();
  const float top = ImGui::GetCursorPosY();
  draw_selected(workspace, model, colors);
  if (gaps > 0) ImGui::SetCursorPosY(top + below - ImGui::GetStyle().ItemSpacing.y);
  if (gaps > 0 || !model.selected) draw_gap_list(workspace, gaps);
}

} // namespace assay
