#include "ui/screens/memory_plot.h"

#include <algorithm>

#include "imgui.h"
#include "implot.h"
#include "ui/model/results/memory_model.h"
#include "ui/model/side.h"
#include "ui/screens/section_table.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr ImPlotFlags kStill = ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                               ImPlotFlags_NoMenus | ImPlotFlags_NoBoxSelect |
                               ImPlotFlags_NoInputs | ImPlotFlags_NoTitle;
constexpr float kHeight = 13; // em

// Where the stages of the baseline's step begin; of the candidate's where it alone has a curve.
void plot_stages(const MemoryModel& model, const Palette& colors) {
  const MemorySide& side = model.sides[model.sides[0].ms.empty() ? 1 : 0];
  std::vector<double> begins;
  // In pixels: names that would lie over each other, or beyond the plot, are left out.
  double free_from = 0;
  const double right = ImPlot::PlotToPixels(model.ms, model.used).x;
  for (const StepMemory::Stage& stage : side.stages) {
    begins.push_back(stage.from_ms);
    const double x = ImPlot::PlotToPixels(stage.from_ms, model.used).x;
    const std::string name = printable(stage.name);
    const ImVec2 size = ImGui::CalcTextSize(name.c_str());
    if (x < free_from || x + size.x > right) continue;
    ImPlot::PlotText(name.c_str(),
                     stage.from_ms,
                     model.used,
                     ImVec2(size.x / 2 + ImGui::GetFontSize() / 4, size.y / 2));
    free_from = x + size.x + ImGui::GetFontSize() / 2;
  }
  ImPlotSpec tick;
  tick.LineColor = to_vec4(colors.border, 0.8F);
  if (!begins.empty())
    ImPlot::PlotInfLines("stages", begins.data(), static_cast<int>(begins.size()), tick);
}

void plot_curves(const MemoryModel& model, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  const float width = std::max(1.0F, ImGui::GetContentRegionAvail().x - em);
  if (!ImPlot::BeginPlot("##memory", ImVec2(width, kHeight * em), kStill)) return;
  ImPlot::SetupAxes("ms from the begin of the step", model.unit.c_str(), 0, 0);
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, model.ms, ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, 0, model.used, ImPlotCond_Always);
  plot_stages(model, colors);
  const Color ink[] = {colors.reference, colors.level};
  const float weight[] = {em / 4, em / 8}; // wide: the baseline shows under the candidate
  for (std::size_t side = 0; side < 2; ++side) {
    const MemorySide& of = model.sides[side];
    if (of.ms.empty()) continue;
    ImPlotSpec line;
    line.LineColor = to_vec4(ink[side]);
    line.LineWeight = std::max(1.0F, weight[side]);
    line.Flags = ImPlotStairsFlags_None;
    ImPlot::PlotStairs(
        side_word(side), of.ms.data(), of.used.data(), static_cast<int>(of.ms.size()), line);
  }
  ImPlot::EndPlot();
}

} // namespace

void draw_memory(const MemoryModel& model, const Palette& colors) {
  if (!ImGui::BeginChild("memory", ImVec2(0, 0))) {
    ImGui::EndChild();
    return;
  }
  if (model.why_no_curve.empty()) {
    for (std::size_t side = 0; side < 2; ++side) {
      if (model.sides[side].words.empty()) continue;
      side_mark(colors, side);
      text_wrapped(colors.muted, model.sides[side].words);
    }
    plot_curves(model, colors);
    text_wrapped(colors.muted,
                 "In use by the allocator, in a step with every allocation noted, which takes "
                 "longer than a timed one; lines: stages of the baseline's step.");
  } else {
    text_wrapped(colors.muted, model.why_no_curve);
  }
  draw_titled(model.phases, colors);
  draw_titled(model.modules, colors);
  ImGui::EndChild();
}

} // namespace assay
