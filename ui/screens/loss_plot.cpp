#include "ui/screens/loss_plot.h"

#include <algorithm>

#include "imgui.h"
#include "implot.h"
#include "ui/model/results/loss_model.h"
#include "ui/model/side.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr ImPlotFlags kStill = ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText |
                               ImPlotFlags_NoMenus | ImPlotFlags_NoBoxSelect |
                               ImPlotFlags_NoInputs | ImPlotFlags_NoTitle;
constexpr float kCurvesShare = 0.5F; // of the height; the difference has the rest
constexpr float kLeastHeight = 7.5F; // em, of each plot; below it the pane scrolls
constexpr float kBesideBadge = 26;   // em; in narrower panes the words are below the badge

ImPlotSpec pen(Color color, float em, float alpha = 1) {
  ImPlotSpec spec;
  spec.LineColor = to_vec4(color, alpha);
  spec.LineWeight = std::max(1.0F, em);
  return spec;
}

void plot(const char* name, const LossLine& line, const ImPlotSpec& spec) {
  if (!line.step.empty())
    ImPlot::PlotLine(
        name, line.step.data(), line.loss.data(), static_cast<int>(line.step.size()), spec);
}

// The baseline is a circle, the candidate a square, everywhere.
void plot_end(std::size_t side, const LossLine& line, Color color) {
  if (line.step.empty()) return;
  ImPlotSpec spec;
  spec.Marker = side == 0 ? ImPlotMarker_Circle : ImPlotMarker_Square;
  spec.MarkerSize = ImGui::GetFontSize() / 4;
  spec.LineColor = spec.MarkerLineColor = spec.MarkerFillColor = to_vec4(color);
  ImPlot::PlotScatter("end", &line.step.back(), &line.loss.back(), 1, spec);
}

void plot_area(const char* name, LossRange x, LossRange y, Color color, float alpha) {
  const double xs[] = {x.low, x.high}, low[] = {y.low, y.low}, high[] = {y.high, y.high};
  ImPlotSpec spec;
  spec.FillColor = to_vec4(color, alpha);
  ImPlot::PlotShaded(name, xs, low, high, 2, spec);
}

float plot_width() { // leaves half of the last tick's label
  return std::max(1.0F, ImGui::GetContentRegionAvail().x - ImGui::GetFontSize());
}

void limits(const LossModel& model, const LossRange& y) {
  ImPlot::SetupAxisLimits(ImAxis_X1, 0, std::max(1.0, model.steps), ImPlotCond_Always);
  ImPlot::SetupAxisLimits(ImAxis_Y1, y.low, y.high, ImPlotCond_Always);
}

void plot_curves(const LossModel& model, const Palette& colors, float height) {
  if (!ImPlot::BeginPlot("##losses", ImVec2(plot_width(), height), kStill)) return;
  ImPlot::SetupAxes(nullptr, "loss", ImPlotAxisFlags_NoTickLabels, 0);
  limits(model, model.losses);
  const float em = ImGui::GetFontSize();
  const Color ink[] = {colors.reference, colors.level};
  for (std::size_t side = 0; side < 2; ++side)
    for (const LossLine& curve : model.sides[side].curves)
      plot(side == 0 ? "baseline seed" : "candidate seed", curve, pen(ink[side], em / 16, 0.45F));
  const ImPlotSpec means[] = {pen(ink[0], em / 3), // wide: it shows under the candidate
                              pen(ink[1], em / 7)};
  for (std::size_t side = 0; side < 2; ++side) {
    plot(side_word(side), model.sides[side].mean, means[side]);
    plot_end(side, model.sides[side].mean, ink[side]);
  }
  ImPlot::EndPlot();
}

// The final difference with its interval, over the steps that are judged; hollow where it contains
// 0.
void plot_final(const LossModel& model, const Palette& colors) {
  if (!model.interval || !model.final_difference) return;
  const double x = (model.judged_from + model.steps) / 2, y = *model.final_difference;
  const double below = y - model.interval->lower, above = model.interval->upper - y;
  const float em = ImGui::GetFontSize();
  ImPlotSpec spec = pen(colors.text, em / 9);
  spec.Size = em / 2;
  ImPlot::PlotErrorBars("interval", &x, &y, &below, &above, 1, spec);
  spec.Marker = ImPlotMarker_Square;
  spec.MarkerSize = em / 4;
  spec.MarkerLineColor = to_vec4(colors.text);
  spec.MarkerFillColor = to_vec4(model.interval->contains(0) ? colors.window : colors.text);
  ImPlot::PlotScatter("interval", &x, &y, 1, spec);
}

void plot_difference(const LossModel& model, const Palette& colors, float height) {
  if (!ImPlot::BeginPlot("##difference", ImVec2(plot_width(), height), kStill)) return;
  ImPlot::SetupAxes("optimizer steps", "candidate - baseline", 0, 0);
  limits(model, model.differences);
  const LossRange all{0, model.steps};
  const bool both = model.rule == LossRule::Equivalence; // else better is welcome
  const double low = both ? -model.margin : model.differences.low;
  if (model.margin > 0) plot_area("margin", all, {low, model.margin}, colors.claim, 0.5F);
  plot_area("judged", {model.judged_from, model.steps}, model.differences, colors.band, 0.6F);
  const double origin = 0;
  ImPlotSpec zero = pen(colors.muted, 0);
  zero.Flags = ImPlotInfLinesFlags_Horizontal;
  ImPlot::PlotInfLines("zero", &origin, 1, zero);
  plot("difference", model.difference, pen(colors.level, ImGui::GetFontSize() / 6));
  plot_final(model, colors);
  ImPlot::EndPlot();
}

std::string reading(const LossModel& model) {
  std::string words = "Nats per token; thin: one seed, thick: their mean. Lower: candidate - "
                      "baseline at equal seeds; shaded: the judged steps";
  if (model.margin > 0) words += fmt::format(", and the margin of {:.4g}", model.margin);
  if (!model.interval) return words + ".";
  return words + fmt::format("; the mark: their difference, {} interval.", model.interval_level);
}

} // namespace

void draw_loss(const LossModel& model, const Palette& colors) {
  const float em = ImGui::GetFontSize();
  const bool wide = ImGui::GetContentRegionAvail().x > kBesideBadge * em;
  badge(colors, model.tone, model.badge);
  if (wide) {
    ImGui::SameLine(0, em * 0.8F);
    ImGui::AlignTextToFramePadding();
  }
  text_wrapped(colors.text, model.words);
  if (!model.why_none.empty()) {
    text_wrapped(colors.muted, model.why_none);
    return;
  }
  const std::string words = reading(model);
  const ImVec2 left = ImGui::GetContentRegionAvail();
  const float below = ImGui::CalcTextSize(words.c_str(), nullptr, false, left.x).y;
  const float space = left.y - below - 2 * ImGui::GetStyle().ItemSpacing.y;
  const float upper = std::max(kLeastHeight * em, kCurvesShare * space);
  ImPlot::PushStyleVar(ImPlotStyleVar_PlotMinSize, ImVec2(0, 0));
  if (ImPlot::BeginAlignedPlots("losses")) {
    plot_curves(model, colors, upper);
    plot_difference(model, colors, std::max(kLeastHeight * em, space - upper));
    ImPlot::EndAlignedPlots();
  }
  ImPlot::PopStyleVar();
  text_wrapped(colors.muted, words);
}

} // namespace assay
