// Inline SVG plots of a report page. Colours are CSS classes of the page, so that they follow its
// light or dark scheme. Axes show the change of time; those of losses nats per token over steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// 980 pixels with texts beside the axis, or, for a narrow page, 360 with texts above each mark.
enum class PlotShape { Wide, Narrow };

struct ForestRow {
  std::string label, cell, detail;  // "mask_dense -> varlen", "varlen", "FASTER"
  std::string figure;               // "-9.34 % [-12.4, -6.1] %"
  double point = 0;                 // log ratio
  std::optional<Interval> interval; // log ratios, as are the next two
  std::optional<Interval> band;     // of the cell's A/A control
  std::optional<Interval> claimed;
  bool control = false; // the A/A row itself
};

// Intervals on one axis, with the claimed range and the A/A band behind each.
std::string forest_svg(const std::vector<ForestRow>& rows, PlotShape shape);
// Every pair of a comparison, one column per launch, with median and exact interval of each launch.
std::string pairs_svg(const Comparison& comparison, const std::optional<Interval>& band);
// Training loss of every variant over optimizer steps: each seed thin, their mean thick; below it
// the mean difference from the reference at equal seeds, with the margin and the steps that are
// judged. "" without a curve.
std::string loss_svg(const CellReport& cell, PlotShape shape);
// Stage by stage from the baseline's step to the candidate's, then the whole of it, traced and
// timed.
std::string waterfall_svg(const Waterfall& waterfall, PlotShape shape);

} // namespace assay
