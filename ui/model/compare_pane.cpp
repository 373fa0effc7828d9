#include "ui/model/compare_pane.h"

#include <algorithm>
#include <array>

#include "ui/model/workspace.h"

namespace assay {

std::vector<ComparePane> compare_panes(const Workspace& workspace) {
  std::vector<ComparePane> panes{ComparePane::Stages};
  if (workspace.speed() != nullptr) panes.push_back(ComparePane::Speed);
  if (workspace.memory() != nullptr) panes.push_back(ComparePane::Memory);
  if (workspace.loss() != nullptr) panes.push_back(ComparePane::Loss);
  return panes;
}

ComparePane shown_pane(const Workspace& workspace) {
  const std::vector<ComparePane> panes = compare_panes(workspace);
  const auto has = [&](ComparePane pane) {
    return std::find(panes.begin(), panes.end(), pane) != panes.end();
  };
  if (workspace.pane && has(*workspace.pane)) return *workspace.pane;
  const CellReport* cell = workspace.cell();
  const bool traced = cell == nullptr || cell->cell.traced_rounds > 0;
  if (traced) return ComparePane::Stages;
  for (const ComparePane pane : {ComparePane::Loss, ComparePane::Speed})
    if (has(pane)) return pane;
  return panes.back();
}

void next_pane(Workspace& workspace) {
  const std::vector<ComparePane> panes = compare_panes(workspace);
  const auto at = std::find(panes.begin(), panes.end(), shown_pane(workspace)) - panes.begin();
  workspace.pane = panes[static_cast<std::size_t>(at + 1) % panes.size()];
}

std::string_view to_string(ComparePane pane) {
  constexpr std::array<std::string_view, 4> kNames{"stages", "speed", "memory", "loss"};
  return kNames[static_cast<std::size_t>(pane)];
}

std::string_view title_of(ComparePane pane) {
  constexpr std::array<std::string_view, 4> kTitles{
      "Where in the step", "Speed", "Memory", "Training loss"};
  return kTitles[static_cast<std::size_t>(pane)];
}

} // namespace assay
