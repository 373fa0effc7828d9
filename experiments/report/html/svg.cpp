#include "experiments/report/html/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/html/svg_marks.h"

namespace assay {

namespace {

constexpr double kClip = 0.9; // shares beyond -90 % and +90 % end at the edge, with an arrow

double change_of(double log) {
  return std::expm1(log);
}

// A linear axis from shares to pixels.
class Axis {
public:
  Axis(double low, double high, double from, double to) : from_(from), to_(to) {
    low = std::max(low, -kClip);
    high = std::min(high, kClip);
    const double margin = std::max(0.06 * (high - low), 0.001);
    low_ = low - margin;
    high_ = high + margin;
  }
  bool holds(double share) const { return share >= low_ && share <= high_; }
  double at(double share) const {
    return from_ + (std::clamp(share, low_, high_) - low_) / (high_ - low_) * (to_ - from_);
  }
  std::vector<double> ticks() const { return axis_ticks(low_, high_); }

private:
  double low_ = 0, high_ = 1, from_, to_;
};

std::string tick_text(double share) {
  return std::abs(share) < 1e-12 ? "0" : fmt::format("{:+.4g} %", std::round(share * 1e6) / 1e4);
}

struct Extent {
  double low = 0, high = 0; // always includes 0
  void add(double share) {
    low = std::min(low, share);
    high = std::max(high, share);
  }
  void add(const std::optional<Interval>& log) {
    if (!log) return;
    add(change_of(log->lower));
    add(change_of(log->upper));
  }
};

// Forest layout, pixels. `middle`: of a row's interval, below the row's top.
struct ForestLayout {
  double width, from, to, row, middle, band;
};
constexpr double kTop = 34;
constexpr ForestLayout kWideForest{980, 290, 770, 34, 17, 30},
    kNarrowForest{360, 4, 356, 76, 60, 22};
constexpr double kLabelGap = 14, kMostForLabels = 420;

const char* label_css(const ForestRow& row) {
  return row.control ? "muted" : "name";
}

// The wide plot gives long labels room from its axis.
ForestLayout forest_layout(const std::vector<ForestRow>& rows, PlotShape shape) {
  if (shape == PlotShape::Narrow) return kNarrowForest;
  ForestLayout layout = kWideForest;
  for (const ForestRow& row : rows)
    layout.from = std::max(layout.from, text_width(label_css(row), row.label) + kLabelGap);
  layout.from = std::min(layout.from, kMostForLabels);
  return layout;
}

std::string
forest_texts(const ForestRow& row, const ForestLayout& layout, PlotShape shape, double y) {
  const char* shade = label_css(row);
  if (shape == PlotShape::Narrow)
    return svg_label(shade, 0, y - 43, "start", row.cell + ": " + row.label, layout.width) +
           svg_label("figure", 0, y - 28, "start", row.figure, layout.width) +
           svg_label("muted small", 0, y - 14, "start", row.detail, layout.width);
  const double left = layout.from - kLabelGap, right = layout.to + 12;
  return svg_label(shade, left, y - 1, "end", row.label, left) +
         svg_label("muted small", left, y + 12, "end", row.cell, left) +
         svg_label("figure", right, y - 2, "start", row.figure, layout.width - right) +
         svg_label("muted small", right, y + 11, "start", row.detail, layout.width - right);
}

std::string forest_row(
    const ForestRow& row, const Axis& axis, const ForestLayout& layout, PlotShape shape, double y) {
  std::string out = fmt::format("<g><title>{}: {}</title>",
                                escape_html(row.cell + ": " + row.label),
                                escape_html(row.figure));
  out += forest_texts(row, layout, shape, y);
  const auto span = [&](const char* css, const Interval& log, double height) {
    const double from = axis.at(change_of(log.lower));
    out += svg_rect(css, from, y - height / 2, axis.at(change_of(log.upper)) - from, height);
  };
  if (row.band && !row.control) span("band", *row.band, layout.band);
  if (row.claimed) span("claimed", *row.claimed, 18);
  const char* css = row.control ? "control" : "b";
  if (row.interval) {
    const double low = change_of(row.interval->lower), high = change_of(row.interval->upper);
    out += svg_line(css, axis.at(low), y, axis.at(high), y);
    for (const double end : {low, high}) { // a bar at a true end, an arrow where the axis cuts it
      const double x = axis.at(end);
      const double back = end == low ? 6 : -6;
      out += axis.holds(end)
                 ? svg_line(css, x, y - 5, x, y + 5)
                 : svg_line(css, x, y, x + back, y - 5) + svg_line(css, x, y, x + back, y + 5);
    }
  }
  const double x = axis.at(change_of(row.point));
  out += row.control
             ? fmt::format("<circle class=\"control\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", x, y)
             : svg_rect("b", x - 4.5, y - 4.5, 9, 9);
  return out + "</g>\n";
}

// Pair plot layout, pixels.
constexpr double kPairsWidth = 980, kPairsHeight = 260, kLeft = 78, kRight = 964, kBottom = 222,
                 kPairsTop = 14;

// Heavy tails would flatten the plot: the axis shows the middle 96 % of the pairs.
Axis pairs_axis(const Comparison& comparison, const std::optional<Interval>& band) {
  std::vector<double> shares;
  for (const LaunchPairs& launch : comparison.pairs.launches)
    for (const Pair& pair : launch.pairs) shares.push_back(change_of(pair.log_ratio));
  Extent extent;
  extent.add(quantile(shares, 0.02));
  extent.add(quantile(shares, 0.98));
  extent.add(band);
  for (const LaunchEffect& launch : comparison.effect_all->launches) extent.add(launch.interval);
  return {extent.low, extent.high, kBottom, kPairsTop};
}

std::string pair_mark(const Pair& pair, const Axis& axis, double x) {
  const double share = change_of(pair.log_ratio);
  const double y = axis.at(share);
  if (!pair.excluded.empty())
    return fmt::format(
               "<g><title>round {}: excluded, {}</title>", pair.round, escape_html(pair.excluded)) +
           svg_line("excluded", x - 3, y - 3, x + 3, y + 3) +
           svg_line("excluded", x - 3, y + 3, x + 3, y - 3) + "</g>";
  if (!axis.holds(share)) { // a triangle at the edge for a pair beyond it
    const double tip = share > 0 ? y - 2 : y + 2, base = share > 0 ? y + 5 : y - 5;
    return fmt::format(
        "<path class=\"pair\" d=\"M{0:.1f} {1:.1f}L{2:.1f} {3:.1f}L{4:.1f} {3:.1f}Z\"/>",
        x,
        tip,
        x - 3.5,
        base,
        x + 3.5);
  }
  return fmt::format("<circle class=\"pair\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.2\"/>", x, y);
}

std::string launch_column(const Comparison& comparison,
                          const LaunchPairs& launch,
                          const Axis& axis,
                          double from,
                          double to) {
  std::string out;
  const double gap = 0.08 * (to - from);
  const auto count = static_cast<double>(launch.pairs.size());
  for (std::size_t i = 0; i < launch.pairs.size(); ++i)
    out += pair_mark(launch.pairs[i],
                     axis,
                     from + gap + (static_cast<double>(i) + 0.5) / count * (to - from - 2 * gap));
  const Effect& effect = comparison.effect ? *comparison.effect : *comparison.effect_all;
  for (const LaunchEffect& one : effect.launches) {
    if (one.launch != launch.launch) continue;
    if (one.interval) {
      const double top = axis.at(change_of(one.interval->upper)),
                   bottom = axis.at(change_of(one.interval->lower));
      out += svg_rect("interval", from + gap / 2, top, to - from - gap, bottom - top);
    }
    out += svg_line("b",
                    from + gap / 2,
                    axis.at(change_of(one.theta)),
                    to - gap / 2,
                    axis.at(change_of(one.theta)));
    out += svg_label("muted small",
                     (from + to) / 2,
                     kBottom + 30,
                     "middle",
                     fmt::format("{} · {} pairs", change_text(change_of(one.theta)), one.pairs),
                     to - from);
  }
  return out + svg_label("muted",
                         (from + to) / 2,
                         kBottom + 16,
                         "middle",
                         fmt::format("launch {}", launch.index),
                         to - from);
}

} // namespace

std::string forest_svg(const std::vector<ForestRow>& rows, PlotShape shape) {
  const ForestLayout layout = forest_layout(rows, shape);
  Extent extent;
  for (const ForestRow& row : rows) {
    extent.add(std::clamp(change_of(row.point), -kClip, kClip));
    extent.add(row.claimed);
    extent.add(row.interval);
  }
  const Axis axis(extent.low, extent.high, layout.from, layout.to);
  const double bottom = kTop + layout.row * static_cast<double>(rows.size());
  std::string out = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
                                "aria-label=\"Effects with their intervals\">\n",
                                layout.width,
                                bottom + 40);
  out += svg_label("muted", layout.from, kTop - 16, "start", "← less time");
  out += svg_label("muted", layout.to, kTop - 16, "end", "more time →");
  for (const double tick : axis.ticks()) {
    out += svg_line("grid", axis.at(tick), kTop - 8, axis.at(tick), bottom);
    out += svg_tick_label(axis.at(tick), bottom + 16, tick_text(tick), layout.width);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    out += forest_row(
        rows[i], axis, layout, shape, kTop + layout.row * static_cast<double>(i) + layout.middle);
  out += svg_line("zero", axis.at(0), kTop - 8, axis.at(0), bottom);
  return out + "</svg>\n";
}

std::string pairs_svg(const Comparison& comparison, const std::optional<Interval>& band) {
  if (!comparison.effect_all) return "";
  const Axis axis = pairs_axis(comparison, band);
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"Pairs by launch\">\n",
      kPairsWidth,
      kPairsHeight);
  if (band) {
    const double top = axis.at(change_of(band->upper));
    out += svg_rect("band", kLeft, top, kRight - kLeft, axis.at(change_of(band->lower)) - top);
  }
  for (const double tick : axis.ticks()) {
    out += svg_line("grid", kLeft, axis.at(tick), kRight, axis.at(tick));
    out += svg_label("muted small", kLeft - 8, axis.at(tick) + 4, "end", tick_text(tick));
  }
  out += svg_line("zero", kLeft, axis.at(0), kRight, axis.at(0));
  const auto& launches = comparison.pairs.launches;
  const double width = (kRight - kLeft) / static_cast<double>(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const double from = kLeft + width * static_cast<double>(i);
    if (i > 0) out += svg_line("grid", from, kPairsTop, from, kBottom);
    out += launch_column(comparison, launches[i], axis, from, from + width);
  }
  return out + "</svg>\n";
}

} // namespace assay
