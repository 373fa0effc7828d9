// Telemetry: one plot a series, A and B over each other, all on one time axis.
#include <algorithm>

#include "core/text.h"
#include "imgui.h"
#include "implot.h"
#include "ui/model/side.h"
#include "ui/model/telemetry/telemetry_model.h"
#include "ui/screens/screens.h"
#include "ui/style/input.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

void plot_side(const Workspace& workspace,
               const TelemetryModel& model,
               const TelemetryRowModel& row,
               std::size_t side,
               int columns) {
  const TelemetrySeries* series = row.sides[side].series;
  if (series == nullptr || series->value.empty()) return;
  const TraceView& view = *workspace.traces[side].view;
  const auto index = static_cast<std::size_t>(series - view.trace().telemetry.data());
  const Palette& colors = palette(workspace.theme);
  const Color color = side == 0 ? colors.reference : colors.level;
  ImPlotSpec band, line;
  band.FillColor = to_vec4(color, 0.35F);
  band.LineColor = to_vec4(color, 0);
  line.LineColor = to_vec4(color);
  line.LineWeight = ImGui::GetFontSize() / 10;
  ImGui::PushID(static_cast<int>(side));
  int part = 0;
  for (const Strip& strip : strips(*series,
                                   view.series()[index].spacing_ns,
                                   view.first_time(),
                                   model.first_s,
                                   model.last_s,
                                   columns)) {
    const int count = static_cast<int>(strip.x.size());
    const std::string name = fmt::format("{}", part++);
    if (count == 1) { // a lone sample between two gaps
      ImPlotSpec dot;
      dot.Marker = side == 0 ? ImPlotMarker_Circle : ImPlotMarker_Square;
      dot.MarkerFillColor = dot.MarkerLineColor = to_vec4(color);
      dot.MarkerSize = ImGui::GetFontSize() / 6;
      ImPlot::PlotScatter(name.c_str(), strip.x.data(), strip.low.data(), 1, dot);
      continue;
    }
    ImPlot::PlotShaded(
        name.c_str(), strip.x.data(), strip.low.data(), strip.high.data(), count, band);
    ImPlot::PlotLine(name.c_str(), strip.x.data(), strip.high.data(), count, line);
  }
  ImGui::PopID();
}

void plot_steps(const Workspace& workspace, const TelemetryModel& model) {
  const TraceView* view =
      workspace.traces[0].view ? workspace.traces[0].view.get() : workspace.traces[1].view.get();
  std::vector<double> starts;
  for (const StepTiling& step : view->steps()) {
    const double x = static_cast<double>(step.step.start - view->first_time()) / 1e9;
    if (x >= model.first_s && x <= model.last_s) starts.push_back(x);
  }
  constexpr std::size_t kMostTicks = 200; // more would be a grey wall
  if (starts.empty() || starts.size() > kMostTicks) return;
  ImPlotSpec tick;
  tick.LineColor = to_vec4(palette(workspace.theme).border, 0.7F);
  ImPlot::PlotInfLines("steps", starts.data(), static_cast<int>(starts.size()), tick);
}

void draw_words(const TelemetryRowModel& row, const Palette& colors) {
  for (std::size_t side = 0; side < 2; ++side) {
    if (row.sides[side].words.empty()) continue;
    side_mark(colors, side);
    text_cut(colors.muted, row.sides[side].words);
  }
}

void draw_plot(const Workspace& workspace,
               const TelemetryModel& model,
               const TelemetryRowModel& row) {
  const Palette& colors = palette(workspace.theme);
  text(colors.accent, printable(row.name));
  ImGui::SameLine(0, ImGui::GetFontSize());
  text(colors.muted, printable(row.source));
  draw_words(row, colors);
  const ImPlotFlags flags = ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText | ImPlotFlags_NoMenus |
                            ImPlotFlags_NoBoxSelect | ImPlotFlags_NoInputs | ImPlotFlags_NoTitle;
  const float width = ImGui::GetContentRegionAvail().x;
  const float room = 4 * ImGui::GetFontSize(); // half of the last tick's label
  ImPlot::PushStyleVar(ImPlotStyleVar_FitPadding, ImVec2(0, 0.12F));
  const bool open =
      ImPlot::BeginPlot(row.name.c_str(), ImVec2(width - room, 7.5F * ImGui::GetFontSize()), flags);
  if (!open) {
    ImPlot::PopStyleVar();
    return;
  }
  ImPlot::SetupAxes(nullptr, nullptr, ImPlotAxisFlags_None, ImPlotAxisFlags_AutoFit);
  ImPlot::SetupAxisLimits(ImAxis_X1, model.first_s, model.last_s, ImPlotCond_Always);
  ImPlot::SetupAxisFormat(ImAxis_X1, "%g s");
  plot_steps(workspace, model);
  for (std::size_t side = 0; side < 2; ++side)
    plot_side(workspace, model, row, side, static_cast<int>(width));
  ImPlot::EndPlot(); // fits the axes
  ImPlot::PopStyleVar();
}

} // namespace

TextTable telemetry_table(const Workspace& workspace) {
  TextTable table{{"series", "source", "baseline", "candidate"}};
  for (const TelemetryRowModel& row : telemetry_model(workspace).rows)
    table.push_back({row.name, row.source, row.sides[0].words, row.sides[1].words});
  return table;
}

void draw_telemetry(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const TelemetryModel model = telemetry_model(workspace);
  if (model.notice) {
    notice(colors, *model.notice, model.failed);
    return;
  }
  for (std::size_t side = 0; side < 2; ++side) {
    if (model.variants[side].empty()) continue;
    side_mark(colors, side);
    text(colors.muted, side_title(side, model.variants[side]));
    ImGui::SameLine(0, ImGui::GetFontSize());
  }
  text_cut(colors.muted,
           "each from its own first event; thin lines: the baseline's steps; W S A D zoom and pan");
  if (ImGui::BeginChild("plots", ImVec2(0, 0))) {
    scroll_by_keys(workspace);
    bool first_refused = true;
    const bool aligned = ImPlot::BeginAlignedPlots("telemetry");
    for (const TelemetryRowModel& row : model.rows) {
      if (row.plotted) {
        draw_plot(workspace, model, row);
        continue;
      }
      if (first_refused) text(colors.accent, "Asked for, but not given by this machine");
      first_refused = false;
      text(colors.text, printable(row.name));
      draw_words(row, colors);
    }
    if (aligned) ImPlot::EndAlignedPlots();
  }
  ImGui::EndChild();
}

} // namespace assay
