#include "ui/screens/pair_plot.h"

#include <algorithm>
#include <vector>

#include "imgui.h"
#include "implot.h"
#include "ui/model/results/compare_model.h"
#include "ui/model/workspace.h"
#include "ui/style/widgets.h"

namespace assay {
namespace {

constexpr std::size_t kMostPairs = 600; // drawn; of more every k-th

struct Points {
  std::vector<double> x, a, b, line_x, line_y, excluded_x, excluded_a, excluded_b, launches;
  std::size_t pairs = 0, stride = 1;
  TimeUnit unit;
};

Points points_of(const PairSet& set) {
  Points points;
  double largest = 0;
  for (const LaunchPairs& launch : set.launches)
    for (const Pair& pair : launch.pairs) {
      ++points.pairs;
      largest = std::max({largest, pair.a_ns, pair.b_ns});
    }
  points.unit = time_unit(largest);
  points.stride = points.pairs / kMostPairs + 1;
  std::size_t index = 0;
  for (const LaunchPairs& launch : set.launches) {
    if (index > 0) points.launches.push_back(static_cast<double>(index) - 0.5);
    for (const Pair& pair : launch.pairs) {
      const auto x = static_cast<double>(index++);
      if (index % points.stride != 0) continue;
      const double a = pair.a_ns / points.unit.ns, b = pair.b_ns / points.unit.ns;
      const bool counts = pair.excluded.empty();
      (counts ? points.x : points.excluded_x).push_back(x);
      (counts ? points.a : points.excluded_a).push_back(a);
      (counts ? points.b : points.excluded_b).push_back(b);
      points.line_x.insert(points.line_x.end(), {x, x});
      points.line_y.insert(points.line_y.end(), {a, b});
    }
  }
  return points;
}

ImPlotSpec marks(Color color, ImPlotMarker marker, bool filled) {
  ImPlotSpec spec;
  spec.Marker = marker;
  spec.MarkerSize = ImGui::GetFontSize() / 5;
  spec.MarkerLineColor = spec.LineColor = to_vec4(color);
  spec.MarkerFillColor = to_vec4(color, filled ? 1.0F : 0.0F);
  return spec;
}

void plot(const char* name,
          const std::vector<double>& x,
          const std::vector<double>& y,
          const ImPlotSpec& spec) {
  if (!x.empty()) ImPlot::PlotScatter(name, x.data(), y.data(), static_cast<int>(x.size()), spec);
}

} // namespace

void draw_pair_plot(Workspace& workspace) {
  const Palette& colors = palette(workspace.theme);
  const Points points = points_of(workspace.comparison()->pairs);
  const float em = ImGui::GetFontSize();
  if (points.pairs == 0 || ImGui::GetContentRegionAvail().y < 7 * em) return;
  ImGui::Dummy(ImVec2(0, em * 0.3F));
  std::string title =
      fmt::format("Pairs: time of a unit in {}, launch by launch", points.unit.word);
  if (points.stride > 1) title += fmt::format(", every {}th", points.stride);
  if (!points.excluded_x.empty()) title += "; hollow ones are excluded";
  text_cut(colors.accent, title);
  const ImPlotFlags flags = ImPlotFlags_NoLegend | ImPlotFlags_NoMouseText | ImPlotFlags_NoMenus |
                            ImPlotFlags_NoBoxSelect | ImPlotFlags_NoInputs;
  ImPlot::PushStyleVar(ImPlotStyleVar_FitPadding, ImVec2(0.01F, 0.08F));
  const bool open =
      ImPlot::BeginPlot("##pairs", ImVec2(-1, ImGui::GetContentRegionAvail().y), flags);
  if (!open) {
    ImPlot::PopStyleVar();
    return;
  }
  ImPlot::SetupAxes(nullptr,
                    nullptr,
                    ImPlotAxisFlags_NoTickLabels | ImPlotAxisFlags_NoGridLines |
                        ImPlotAxisFlags_NoTickMarks | ImPlotAxisFlags_AutoFit,
                    ImPlotAxisFlags_AutoFit);
  ImPlotSpec joined, border;
  joined.LineColor = to_vec4(colors.border);
  joined.Flags = ImPlotLineFlags_Segments;
  ImPlot::PlotLine("pairs",
                   points.line_x.data(),
                   points.line_y.data(),
                   static_cast<int>(points.line_x.size()),
                   joined);
  border.LineColor = to_vec4(colors.muted, 0.6F);
  if (!points.launches.empty())
    ImPlot::PlotInfLines(
        "launches", points.launches.data(), static_cast<int>(points.launches.size()), border);
  plot("baseline", points.x, points.a, marks(colors.reference, ImPlotMarker_Circle, true));
  plot("candidate", points.x, points.b, marks(colors.level, ImPlotMarker_Square, true));
  plot("baseline excluded",
       points.excluded_x,
       points.excluded_a,
       marks(colors.reference, ImPlotMarker_Circle, false));
  plot("candidate excluded",
       points.excluded_x,
       points.excluded_b,
       marks(colors.level, ImPlotMarker_Square, false));
  ImPlot::EndPlot(); // fits the axes
  ImPlot::PopStyleVar();
}

} // namespace assay
