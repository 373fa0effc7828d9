#include "ui/screens/details_panel.h"

#include <algorithm>
#include <vector>

#include "imgui.h"
#include "implot.h"
#include "ui/model/workspace.h"
#include "ui/screens/section_table.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

// Launches from the top in their order; the whole result's interval as an area behind them.
void draw_launch_plot(const Palette& colors, const VerdictRowModel& row, ImVec2 size) {
  const ImPlotFlags flags = ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText | ImPlotFlags_NoMenus |
                            ImPlotFlags_NoBoxSelect;
  if (!ImPlot::BeginPlot("##launches", size, flags)) return;
  const std::size_t count = row.launches.size();
  std::vector<double> values, below, above, ranks;
  std::vector<const char*> labels;
  double left = 0, right = 0; // zero is always in view
  for (const LaunchPoint& launch : row.launches) {
    values.push_back(launch.value);
    below.push_back(launch.value - launch.lo);
    above.push_back(launch.hi - launch.value);
    ranks.push_back(static_cast<double>(count - ranks.size()));
    labels.push_back(launch.label.c_str());
    left = std::min(left, launch.lo);
    right = std::max(right, launch.hi);
  }
  const ImPlotAxisFlags plain = ImPlotAxisFlags_NoMenus | ImPlotAxisFlags_NoHighlight;
  ImPlot::SetupAxes("change of time, %", nullptr, plain, plain | ImPlotAxisFlags_NoGridLines);
  const double margin = 0.06 * (right - left);
  ImPlot::SetupAxesLimits(
      left - margin, right + margin, 0.4, static_cast<double>(count) + 0.6, ImPlotCond_Always);
  ImPlot::SetupAxisTicks(ImAxis_Y1, ranks.data(), static_cast<int>(count), labels.data());
  ImPlotSpec area, zero, mark;
  if (row.interval) {
    const double xs[] = {row.interval->lo, row.interval->hi};
    const double low[] = {0, 0},
                 high[] = {static_cast<double>(count) + 1, static_cast<double>(count) + 1};
    area.FillColor = to_vec4(colors.claim, 0.6F);
    ImPlot::PlotShaded("interval", xs, low, high, 2, area);
  }
  const double origin = 0;
  zero.LineColor = to_vec4(colors.muted);
  ImPlot::PlotInfLines("zero", &origin, 1, zero);
  mark.LineColor = mark.FillColor = mark.MarkerFillColor = mark.MarkerLineColor =
      to_vec4(colors.level);
  mark.LineWeight = ImGui::GetFontSize() / 9;
  mark.Size = ImGui::GetFontSize() / 3;
  mark.Flags = ImPlotErrorBarsFlags_Horizontal;
  ImPlot::PlotErrorBars("launch",
                        values.data(),
                        ranks.data(),
                        below.data(),
                        above.data(),
                        static_cast<int>(count),
                        mark);
  mark.Flags = 0;
  mark.Marker = ImPlotMarker_Square;
  mark.MarkerSize = ImGui::GetFontSize() / 4;
  ImPlot::PlotScatter("launch", values.data(), ranks.data(), static_cast<int>(count), mark);
  ImPlot::EndPlot();
}

void draw_launches(const Palette& colors, const VerdictRowModel& row) {
  const float em = ImGui::GetFontSize();
  text_wrapped(colors.accent, "Every launch's own effect; behind them the interval of the result");
  const float wanted = (static_cast<float>(row.launches.size()) * 1.6F + 5) * em;
  draw_launch_plot(
      colors,
      row,
      ImVec2(-1, std::min(wanted, std::max(8 * em, ImGui::GetContentRegionAvail().y))));
}

void draw_text(Workspace& workspace, const VerdictRowModel& row) {
  const Palette& colors = palette(workspace.theme);
  scroll_by_keys(workspace);
  text(colors.text, row.cell + "  " + row.comparison);
  ImGui::SameLine(0, ImGui::GetFontSize());
  if (ImGui::CalcTextSize(row.badge.c_str()).x + ImGui::GetFontSize() >
      ImGui::GetContentRegionAvail().x)
    ImGui::NewLine();
  badge(colors, row.tone, row.badge);
  for (const Section& section : row.details) {
    ImGui::Dummy(ImVec2(0, ImGui::GetFontSize() * 0.2F));
    draw_titled(section, colors);
  }
}

} // namespace

void draw_details(Workspace& workspace) {
  const VerdictRowModel& row = workspace.verdicts()->rows.at(workspace.row);
  const float width = ImGui::GetContentRegionAvail().x;
  const float text_width = row.launches.empty() ? width : width * 0.58F;
  if (ImGui::BeginChild("text", ImVec2(text_width, 0), ImGuiChildFlags_AlwaysUseWindowPadding))
    draw_text(workspace, row);
  ImGui::EndChild();
  if (row.launches.empty()) return;
  ImGui::SameLine();
  if (ImGui::BeginChild("launches", ImVec2(0, 0), ImGuiChildFlags_AlwaysUseWindowPadding))
    draw_launches(palette(workspace.theme), row);
  ImGui::EndChild();
}

} // namespace assay
