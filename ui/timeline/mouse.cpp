#include "ui/timeline/mouse.h"

#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "ui/model/navigate.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/timeline_model.h"
#include "ui/model/workspace.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr double kWheelZoom = 0.8;
constexpr float kDragStart = 4; // pixels before a press is a drag

void zoom_by_wheel(Workspace& workspace, const SideFrame& frame) {
  const float wheel = ImGui::GetIO().MouseWheel;
  if (wheel == 0 || !wheel_zooms(workspace)) return;
  const double at = (ImGui::GetIO().MousePos.x - frame.corner.x - frame.gutter) / frame.width;
  workspace.timeline.side = frame.side;
  zoom(workspace, std::pow(kWheelZoom, static_cast<double>(wheel)), std::clamp(at, 0.0, 1.0));
}

void drag(Workspace& workspace, const SideFrame& frame) {
  const ImGuiIO& io = ImGui::GetIO();
  TimelineState& state = workspace.timeline;
  const bool shift = io.KeyShift;
  const bool right = ImGui::IsMouseDragging(ImGuiMouseButton_Right, kDragStart);
  const bool left = ImGui::IsMouseDragging(ImGuiMouseButton_Left, kDragStart);
  const bool middle = ImGui::IsMouseDragging(ImGuiMouseButton_Middle, kDragStart);
  if (right || (left && shift)) {
    state.side = frame.side;
    pan(workspace, -static_cast<double>(io.MouseDelta.x / frame.width));
  } else if (left || middle) {
    const int button = left ? ImGuiMouseButton_Left : ImGuiMouseButton_Middle;
    const double from = frame.time_at(workspace, io.MouseClickedPos[button].x);
    const double to = frame.time_at(workspace, io.MousePos.x);
    state.side = frame.side;
    state.area = TimeRange{std::min(from, to), std::abs(to - from)};
  }
}

void release(Workspace& workspace, const SideFrame& frame) {
  TimelineState& state = workspace.timeline;
  if (!ImGui::IsMouseReleased(ImGuiMouseButton_Middle) || !state.area) return;
  const TimeRange area = *state.area;
  state.area.reset();
  if (area.span > 0) show_range(workspace, frame.side, area.from, area.span);
}

void click(Workspace& workspace, std::size_t side, const std::optional<EventRef>& event) {
  if (!ImGui::IsMouseReleased(ImGuiMouseButton_Left)) return;
  const ImVec2 moved = ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 0);
  if (std::abs(moved.x) + std::abs(moved.y) > kDragStart) return;
  workspace.timeline.area.reset();
  workspace.timeline.selected.reset();
  if (event) select_event(workspace, side, *event);
}

} // namespace

bool wheel_zooms(const Workspace& workspace) {
  return ImGui::GetIO().KeyCtrl != workspace.timeline.wheel_zooms;
}

void handle_mouse(Workspace& workspace, const SideFrame& frame) {
  const TraceView& view = *workspace.traces[frame.side].view;
  if (workspace.timeline.area && workspace.timeline.side == frame.side) {
    const TimeRange area = *workspace.timeline.area;
    const float left = frame.corner.x + frame.gutter;
    ImGui::GetWindowDrawList()->AddRectFilled(
        ImVec2(std::max(left, frame.x(workspace, area.from)), frame.corner.y),
        ImVec2(std::min(left + frame.width, frame.x(workspace, area.from + area.span)),
               frame.corner.y + frame.height),
        to_u32(palette(workspace.theme).accent, 0.18F));
  }
  if (!ImGui::IsWindowHovered()) return;
  zoom_by_wheel(workspace, frame);
  drag(workspace, frame);
  release(workspace, frame);
  std::size_t track = 0;
  const Box* box = box_at(frame, view, ImGui::GetIO().MousePos, track);
  std::optional<EventRef> event;
  if (box != nullptr) event = event_of(view.tracks()[track], *box);
  if (event) workspace.timeline.hovered = Selection{frame.side, *event};
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) && event) {
    select_event(workspace, frame.side, *event);
    focus_selected(workspace);
  } else {
    click(workspace, frame.side, event);
  }
}

void show_tooltip(Workspace& workspace, const std::vector<SideFrame>& frames) {
  if (!workspace.timeline.hovered || ImGui::IsMouseDown(ImGuiMouseButton_Left)) return;
  const Selection hovered = *workspace.timeline.hovered;
  const Palette& colors = palette(workspace.theme);
  for (const SideFrame& frame : frames) {
    if (frame.side != hovered.side) continue;
    const TraceView& view = *workspace.traces[frame.side].view;
    std::size_t track = 0;
    const Box* box = box_at(frame, view, ImGui::GetIO().MousePos, track);
    if (box == nullptr) continue;
    ImGui::PushStyleColor(ImGuiCol_PopupBg, to_vec4(colors.panel));
    ImGui::BeginTooltip();
    ImGui::PushTextWrapPos(40 * ImGui::GetFontSize());
    if (box->count == 1) {
      const EventWords words = words_of(workspace, hovered);
      text(colors.text, words.name.substr(0, 400));
      text(colors.muted, fmt::format("{} · {}", words.source, time_text(words.duration_ns)));
      text(colors.muted, partner_words(workspace, hovered));
    } else {
      text(colors.text,
           fmt::format("{} short events, {:.0f} % busy; zoom in to see them one by one",
                       box->count,
                       100 * static_cast<double>(box->busy)));
      std::size_t shown = 0;
      for (const NameShare& share : names_in(view, view.tracks()[track], *box)) {
        if (++shown > 3) break;
        text(colors.muted,
             fmt::format("{} × {} · {}",
                         share.count,
                         printable(view.trace().name(share.name)).substr(0, 120),
                         time_text(static_cast<double>(share.ns))));
      }
    }
    ImGui::PopTextWrapPos();
    ImGui::EndTooltip();
    ImGui::PopStyleColor();
    return;
  }
}

} // namespace assay
