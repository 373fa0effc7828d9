#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/html/svg_marks.h"

namespace assay {

namespace {

// Pixels. `middle`: of a row's bar, below the row's top.
struct Layout {
  double width, from, to, row, middle;
};
constexpr double kTop = 34;
constexpr Layout kWide{980, 230, 690, 30, 15}, kNarrow{360, 4, 356, 62, 44};

// A linear axis of the change of a step's time, ns.
struct Axis {
  double from, to; // pixels
  double low = 0, high = 0;
  double at(double ns) const { return from + (ns - low) / (high - low) * (to - from); }
};

Axis axis_of(const Waterfall& waterfall, const Layout& layout) {
  Axis axis{layout.from, layout.to};
  const auto add = [&](double ns) {
    axis.low = std::min(axis.low, ns);
    axis.high = std::max(axis.high, ns);
  };
  double sum = 0;
  for (const StageDelta& stage : waterfall.stages) {
    if (stage.interval) add(sum + stage.interval->lower);
    if (stage.interval) add(sum + stage.interval->upper);
    add(sum += stage.delta_ns);
  }
  if (waterfall.traced_interval) add(waterfall.traced_interval->lower);
  if (waterfall.traced_interval) add(waterfall.traced_interval->upper);
  if (waterfall.timed_interval) add(waterfall.timed_interval->lower);
  if (waterfall.timed_interval) add(waterfall.timed_interval->upper);
  add(waterfall.timed_delta_ns);
  const double margin = std::max(0.04 * (axis.high - axis.low), 1.0);
  axis.low -= margin;
  axis.high += margin;
  return axis;
}

struct Bar {
  std::string name, detail, figure;
  const char* css;
  double from = 0, to = 0;          // ns
  std::optional<Interval> interval; // of `to`
};

std::string texts_svg(const Bar& bar, PlotShape shape, double y) {
  if (shape == PlotShape::Narrow)
    return svg_label("name", 0, y - 28, "start", bar.name) +
           svg_label("muted small", kNarrow.to, y - 28, "end", bar.detail) +
           svg_label("figure", 0, y - 13, "start", bar.figure);
  return svg_label("name", kWide.from - 14, y - 1, "end", bar.name) +
         svg_label("muted small", kWide.from - 14, y + 11, "end", bar.detail) +
         svg_label("figure", kWide.to + 14, y + 4, "start", bar.figure);
}

std::string bar_svg(const Bar& bar, const Axis& axis, PlotShape shape, double y) {
  const double left = axis.at(std::min(bar.from, bar.to)),
               right = axis.at(std::max(bar.from, bar.to));
  std::string out = fmt::format("<g><title>{}: {}</title>", escape_html(bar.name), bar.figure);
  out += texts_svg(bar, shape, y);
  out += svg_rect(bar.css, left, y - 8, right - left, 16);
  if (bar.interval) {
    const double low = axis.at(bar.interval->lower), high = axis.at(bar.interval->upper);
    out += svg_line("whisker", low, y, high, y);
    for (const double end : {low, high}) out += svg_line("whisker", end, y - 4, end, y + 4);
  }
  return out + "</g>\n";
}

std::optional<Interval> shifted(const std::optional<Interval>& interval, double by) {
  if (!interval) return std::nullopt;
  return Interval{interval->lower + by, interval->upper + by};
}

std::string
with_interval(double delta, const std::optional<Interval>& interval, const TimeScale& scale) {
  return fmt::format("{} {} {}",
                     difference_text(delta, scale),
                     scale.unit,
                     interval ? difference_interval_text(interval, scale) : "(no interval)");
}

std::vector<Bar> bars_of(const Waterfall& waterfall, const TimeScale& scale) {
  const auto css = [](double delta) { return delta < 0 ? "fall" : "rise"; };
  const auto figure = [&](double delta, const std::optional<Interval>& interval) {
    const std::string share = stage_share_text(waterfall, delta);
    return with_interval(delta, interval, scale) + (share == "-" ? "" : " " + share);
  };
  const auto change = [&](double a, double b) {
    return fmt::format("{} → {} {}", time_text(a, scale), time_text(b, scale), scale.unit);
  };
  std::vector<Bar> bars;
  double sum = 0;
  for (const StageDelta& stage : waterfall.stages) {
    bars.push_back({std::string(to_string(stage.stage)),
                    change(stage.a_ns, stage.b_ns),
                    figure(stage.delta_ns, stage.interval),
                    css(stage.delta_ns),
                    sum,
                    sum + stage.delta_ns,
                    shifted(stage.interval, sum)});
    sum += stage.delta_ns;
  }
  bars.push_back({"traced step",
                  change(waterfall.a_ns, waterfall.b_ns),
                  figure(sum, waterfall.traced_interval),
                  "whole",
                  0,
                  sum,
                  waterfall.traced_interval});
  if (waterfall.timed_a_ns > 0)
    bars.push_back({"timed step",
                    change(waterfall.timed_a_ns, waterfall.timed_a_ns + waterfall.timed_delta_ns),
                    with_interval(waterfall.timed_delta_ns, waterfall.timed_interval, scale),
                    "whole",
                    0,
                    waterfall.timed_delta_ns,
                    waterfall.timed_interval});
  return bars;
}

} // namespace

std::string waterfall_svg(const Waterfall& waterfall, PlotShape shape) {
  const Layout& layout = shape == PlotShape::Wide ? kWide : kNarrow;
  const TimeScale scale = scale_of(waterfall);
  const Axis axis = axis_of(waterfall, layout);
  const std::vector<Bar> bars = bars_of(waterfall, scale);
  const double bottom = kTop + layout.row * static_cast<double>(bars.size());
  std::string out = fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" "
                                "aria-label=\"Change of the step's time by stage\">\n",
                                layout.width,
                                bottom + 30);
  out += svg_label("muted", layout.from, kTop - 16, "start", "← less time");
  out += svg_label("muted", layout.to, kTop - 16, "end", "more time →");
  for (const double tick : axis_ticks(axis.low / scale.ns, axis.high / scale.ns)) {
    const double x = axis.at(tick * scale.ns);
    out += svg_line("grid", x, kTop - 8, x, bottom);
    out +=
        svg_tick_label(x,
                       bottom + 16,
                       std::abs(tick) < 1e-12 ? "0" : fmt::format("{:+.4g} {}", tick, scale.unit),
                       layout.width);
  }
  // Below the texts, which a narrow page writes across it.
  out += svg_line("zero", axis.at(0), kTop - 8, axis.at(0), bottom);
  for (std::size_t i = 0; i < bars.size(); ++i)
    out +=
        bar_svg(bars[i], axis, shape, kTop + layout.row * static_cast<double>(i) + layout.middle);
  return out + "</svg>\n";
}

} // namespace assay
