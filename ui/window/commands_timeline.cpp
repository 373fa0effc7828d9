// Commands of the timeline; zoom and pan also move telemetry.
#include <algorithm>

#include "imgui.h"
#include "ui/model/kernel_model.h"
#include "ui/model/navigate.h"
#include "ui/model/telemetry/telemetry_model.h"
#include "ui/window/commands.h"

namespace assay {
namespace {

constexpr double kZoomIn = 0.7, kPan = 0.15;

bool on_timeline(const Workspace& workspace) {
  return workspace.screen == ScreenId::Timeline &&
         (workspace.traces[0].view || workspace.traces[1].view);
}

bool has_gaps(const Workspace& workspace) {
  return on_timeline(workspace) && !workspace.gaps.empty();
}

bool has_time(const Workspace& workspace) {
  return on_timeline(workspace) || (workspace.screen == ScreenId::Telemetry &&
                                    (workspace.traces[0].view || workspace.traces[1].view));
}

bool walks_kernels(const Workspace& workspace) {
  return on_timeline(workspace) ||
         (workspace.screen == ScreenId::Kernels && workspace.explanation() != nullptr);
}

// The shown range of telemetry, as if it had been chosen.
TimeRange& telemetry_range(Workspace& workspace) {
  if (workspace.telemetry.span <= 0) {
    const TelemetryModel model = telemetry_model(workspace);
    workspace.telemetry = {model.first_s * 1e9, (model.last_s - model.first_s) * 1e9};
  }
  return workspace.telemetry;
}

void zoom_by(Workspace& workspace, double factor) {
  if (workspace.screen == ScreenId::Timeline) {
    zoom(workspace, factor, 0.5);
    return;
  }
  TimeRange& range = telemetry_range(workspace);
  const double span = std::clamp(range.span * factor, 1e6, 1e14);
  range.from += (range.span - span) / 2;
  range.span = span;
}

void pan_by(Workspace& workspace, double share) {
  if (workspace.screen == ScreenId::Timeline)
    pan(workspace, share);
  else
    telemetry_range(workspace).from += share * workspace.telemetry.span;
}

void show_all(Workspace& workspace) {
  if (workspace.screen == ScreenId::Timeline)
    fit_run(workspace);
  else
    workspace.telemetry = {};
}

void walk(Workspace& workspace, std::ptrdiff_t by) {
  if (workspace.screen == ScreenId::Timeline) {
    next_same(workspace, by);
    return;
  }
  const KernelModel model = kernel_model(workspace);
  if (workspace.kernels.row >= model.rows.size()) return;
  const std::string name = model.rows[workspace.kernels.row].row->name;
  go_to(workspace, ScreenId::Timeline);
  if (!find_name(workspace, name)) workspace.find_name = name;
}

void toggle_link(Workspace& workspace) {
  TimelineState& state = workspace.timeline;
  state.linked = !state.linked;
  if (state.linked && state.align != Align::Free)
    state.range[1 - state.side] = state.range[state.side];
}

} // namespace

std::vector<Command> timeline_commands() {
  return {
      {"time.zoom_in",
       "Zoom in",
       "W",
       {ImGuiKey_W},
       has_time,
       [](Workspace& w) { zoom_by(w, kZoomIn); }},
      {"time.zoom_out",
       "Zoom out",
       "S",
       {ImGuiKey_S},
       has_time,
       [](Workspace& w) { zoom_by(w, 1 / kZoomIn); }},
      {"time.left",
       "Earlier",
       "A, Left",
       {ImGuiKey_A, ImGuiKey_LeftArrow},
       has_time,
       [](Workspace& w) { pan_by(w, -kPan); }},
      {"time.right",
       "Later",
       "D, Right",
       {ImGuiKey_D, ImGuiKey_RightArrow},
       has_time,
       [](Workspace& w) { pan_by(w, kPan); }},
      {"time.run", "The whole run", "Shift 0", {ImGuiMod_Shift | ImGuiKey_0}, has_time, show_all},
      {"time.step", "The whole step", "0", {ImGuiKey_0, ImGuiKey_Keypad0}, on_timeline, fit_step},
      {"rows.down",
       "Scroll the tracks down",
       "Down",
       {ImGuiKey_DownArrow},
       on_timeline,
       [](Workspace& w) { w.timeline.scroll_rows = 2; }},
      {"rows.up",
       "Scroll the tracks up",
       "Up",
       {ImGuiKey_UpArrow},
       on_timeline,
       [](Workspace& w) { w.timeline.scroll_rows = -2; }},
      {"step.next",
       "Next step",
       "]",
       {ImGuiKey_RightBracket},
       on_timeline,
       [](Workspace& w) { move_step(w, 1); }},
      {"step.previous",
       "Previous step",
       "[",
       {ImGuiKey_LeftBracket},
       on_timeline,
       [](Workspace& w) { move_step(w, -1); }},
      {"step.typical", "The typical step", "R", {ImGuiKey_R}, on_timeline, representative_step},
      {"align",
       "Align by step start, stage start, or not",
       "T",
       {ImGuiKey_T},
       on_timeline,
       cycle_align},
      {"link", "Link or unlink the two traces", "L", {ImGuiKey_L}, on_timeline, toggle_link},
      {"ghost",
       "The baseline's stages over the candidate's",
       "G",
       {ImGuiKey_G},
       on_timeline,
       [](Workspace& w) { w.timeline.ghost = !w.timeline.ghost; }},
      {"strips",
       "Telemetry under the tracks, or not",
       "V",
       {ImGuiKey_V},
       on_timeline,
       [](Workspace& w) { w.timeline.strips = !w.timeline.strips; }},
      {"gap.next",
       "Longest idle gap, then the next",
       "I",
       {ImGuiKey_I},
       has_gaps,
       [](Workspace& w) { next_gap(w, 1); }},
      {"gap.previous",
       "Previous idle gap",
       "Shift I",
       {ImGuiMod_Shift | ImGuiKey_I},
       has_gaps,
       [](Workspace& w) { next_gap(w, -1); }},
      {"gaps",
       "List of the idle gaps, or a line on the longest",
       "U",
       {ImGuiKey_U},
       on_timeline,
       [](Workspace& w) { w.timeline.gap_list = !w.timeline.gap_list; }},
      {"swap",
       "The candidate above the baseline, or below it",
       "X",
       {ImGuiKey_X},
       on_timeline,
       [](Workspace& w) { w.timeline.swapped = !w.timeline.swapped; }},
      {"wheel",
       "The wheel zooms, or scrolls",
       "Ctrl W",
       {ImGuiMod_Ctrl | ImGuiKey_W},
       on_timeline,
       [](Workspace& w) { w.timeline.wheel_zooms = !w.timeline.wheel_zooms; }},
      {"focus", "Zoom to the selected event", "F", {ImGuiKey_F}, on_timeline, focus_selected},
      {"same.next",
       "Next of the same name",
       "N",
       {ImGuiKey_N},
       walks_kernels,
       [](Workspace& w) { walk(w, 1); }},
      {"same.previous",
       "Previous of the same name",
       "Shift N",
       {ImGuiMod_Shift | ImGuiKey_N},
       walks_kernels,
       [](Workspace& w) { walk(w, -1); }},
      {"neighbour.next",
       "Next event of the row",
       ".",
       {ImGuiKey_Period},
       on_timeline,
       [](Workspace& w) { neighbour(w, 1); }},
      {"neighbour.previous",
       "Previous event of the row",
       ",",
       {ImGuiKey_Comma},
       on_timeline,
       [](Workspace& w) { neighbour(w, -1); }},
  };
}

} // namespace assay
