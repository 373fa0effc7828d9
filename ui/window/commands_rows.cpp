// Commands of the screens that are tables: rows, filters, and the way to the timeline.
#include <algorithm>

#include "imgui.h"
#include "ui/model/kernel_model.h"
#include "ui/model/navigate.h"
#include "ui/model/results/runs_model.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"

namespace assay {
namespace {

constexpr float kPageLines = 8;

bool on_kernels(const Workspace& workspace) {
  return workspace.screen == ScreenId::Kernels && workspace.explanation() != nullptr;
}

bool on_compare(const Workspace& workspace) {
  return workspace.screen == ScreenId::Compare && workspace.comparison() != nullptr;
}

bool has_rows(const Workspace& workspace) {
  return (workspace.screen == ScreenId::Runs && workspace.results) || on_kernels(workspace) ||
         on_compare(workspace);
}

// The stages of the waterfall, from "none" on.
void move_stage(Workspace& workspace, std::ptrdiff_t by) {
  const Explanation* explanation = workspace.explanation();
  if (explanation == nullptr || explanation->waterfall.stages.empty()) return;
  const std::vector<StageDelta>& stages = explanation->waterfall.stages;
  std::ptrdiff_t at = by > 0 ? -1 : static_cast<std::ptrdiff_t>(stages.size());
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (workspace.stage == stages[i].stage) at = static_cast<std::ptrdiff_t>(i);
  at = std::clamp<std::ptrdiff_t>(at + by, 0, static_cast<std::ptrdiff_t>(stages.size()) - 1);
  workspace.stage = stages[static_cast<std::size_t>(at)].stage;
}

void move_row(Workspace& workspace, std::ptrdiff_t by) {
  if (workspace.screen == ScreenId::Runs) {
    select_row(workspace, by);
  } else if (workspace.screen == ScreenId::Compare) {
    move_stage(workspace, by);
  } else {
    const auto rows = static_cast<std::ptrdiff_t>(kernel_model(workspace).rows.size());
    const auto wanted = static_cast<std::ptrdiff_t>(workspace.kernels.row) + by;
    workspace.kernels.row = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(wanted, 0, std::max<std::ptrdiff_t>(0, rows - 1)));
    workspace.kernels.scroll_to_row = true;
  }
}

// The selected kernel in the timeline: now if the traces are there, else when they arrive.
void show_in_timeline(Workspace& workspace) {
  const KernelModel model = kernel_model(workspace);
  if (workspace.kernels.row >= model.rows.size()) return;
  const std::string name = model.rows[workspace.kernels.row].row->name;
  go_to(workspace, ScreenId::Timeline);
  if (!find_name(workspace, name)) workspace.find_name = name;
}

void open_row(Workspace& workspace) {
  if (workspace.screen == ScreenId::Runs)
    go_to(workspace, ScreenId::Compare);
  else if (workspace.screen == ScreenId::Compare)
    workspace.kernels.row = 0, go_to(workspace, ScreenId::Kernels);
  else
    show_in_timeline(workspace);
}

void cycle_sort(Workspace& workspace) {
  constexpr int kSorts = static_cast<int>(KernelSort::Status) + 1;
  workspace.kernels.sort =
      static_cast<KernelSort>((static_cast<int>(workspace.kernels.sort) + 1) % kSorts);
  workspace.kernels.row = 0;
}

void clear_filters(Workspace& workspace) {
  workspace.kernels.filter.clear();
  workspace.stage.reset();
}

bool on_runs(const Workspace& workspace) {
  return workspace.screen == ScreenId::Runs && !blocked(workspace);
}

void move_section(Workspace& workspace, std::size_t by) {
  const std::vector<Section>& sections = workspace.results->sections;
  const std::size_t at = find_section(*workspace.results, workspace.section);
  workspace.section = sections[(at + by) % sections.size()].id;
}

} // namespace

std::vector<Command> row_commands() {
  return {
      {"row.next",
       "Next row or stage",
       "Down, J",
       {ImGuiKey_DownArrow, ImGuiKey_J},
       has_rows,
       [](Workspace& w) { move_row(w, 1); }},
      {"row.previous",
       "Previous row or stage",
       "Up, K",
       {ImGuiKey_UpArrow, ImGuiKey_K},
       has_rows,
       [](Workspace& w) { move_row(w, -1); }},
      {"row.open",
       "Open: comparison, kernels of the stage, kernel in the timeline",
       "Enter",
       {ImGuiKey_Enter, ImGuiKey_KeypadEnter},
       has_rows,
       open_row},
      {"details.down",
       "Scroll down",
       "Page Down",
       {ImGuiKey_PageDown},
       nullptr,
       [](Workspace& w) { w.scroll_details = kPageLines; }},
      {"details.up",
       "Scroll up",
       "Page Up",
       {ImGuiKey_PageUp},
       nullptr,
       [](Workspace& w) { w.scroll_details = -kPageLines; }},
      {"comparison.next",
       "Next comparison",
       "Ctrl Down",
       {ImGuiMod_Ctrl | ImGuiKey_DownArrow},
       [](const Workspace& w) { return w.comparison() != nullptr; },
       [](Workspace& w) { select_row(w, 1); }},
      {"comparison.previous",
       "Previous comparison",
       "Ctrl Up",
       {ImGuiMod_Ctrl | ImGuiKey_UpArrow},
       [](const Workspace& w) { return w.comparison() != nullptr; },
       [](Workspace& w) { select_row(w, -1); }},
      {"compare.pane",
       "Stages, speed or training loss on the right",
       "C",
       {ImGuiKey_C},
       on_compare,
       next_pane},
      {"runs.section",
       "Next section of the report",
       "C",
       {ImGuiKey_C},
       on_runs,
       [](Workspace& w) { move_section(w, 1); }},
      {"runs.section_back",
       "Previous section of the report",
       "Shift C",
       {ImGuiMod_Shift | ImGuiKey_C},
       on_runs,
       [](Workspace& w) { move_section(w, w.results->sections.size() - 1); }},
      {"kernels.sort", "Sort by the next column", "O", {ImGuiKey_O}, on_kernels, cycle_sort},
      {"kernels.reverse",
       "Reverse the order",
       "Shift O",
       {ImGuiMod_Shift | ImGuiKey_O},
       on_kernels,
       [](Workspace& w) { w.kernels.descending = !w.kernels.descending; }},
      {"kernels.operators",
       "Kernels or operators",
       "P",
       {ImGuiKey_P},
       on_kernels,
       [](Workspace& w) { w.kernels.operators = !w.kernels.operators; }},
      {"kernels.minimum",
       "Dim rows below 0.2 % of the step, or none",
       "M",
       {ImGuiKey_M},
       on_kernels,
       [](Workspace& w) { w.kernels.least_share = w.kernels.least_share > 0 ? 0 : 0.002; }},
      {"filters.clear",
       "Clear filters and stage",
       "Backspace",
       {ImGuiKey_Backspace},
       nullptr,
       clear_filters},
  };
}

} // namespace assay
