// Training loss over optimizer steps.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/evidence/loss/loss_lines.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/html/svg_marks.h"

namespace assay {

namespace {

struct Place {
  double x, y;
};

// Pixels: the picture, the plot of losses, and below it that of differences.
struct Layout {
  double width, left, right, top;
  std::vector<Place> legend; // by variant
  double bottom() const { return top + 222; }
  double below_top() const { return bottom() + 52; }
  double below_bottom() const { return below_top() + 128; }
  double height() const { return below_bottom() + 54; }
};
constexpr double kLegendLine = 18, kLegendName = 200;

// Beside the title as many variants in a line as fit; a line for each where the page is narrow.
Layout layout_of(PlotShape shape, const std::vector<LossBundle>& all) {
  const bool wide = shape == PlotShape::Wide;
  Layout layout = wide ? Layout{980, 64, 964, 28, {}} : Layout{360, 50, 340, 14, {}};
  Place place = wide ? Place{250, 16} : Place{4, 16 + kLegendLine};
  for (const LossBundle& bundle : all) {
    const double name = std::min(text_width("name", bundle.variant), kLegendName);
    if (!layout.legend.empty() && (!wide || place.x + 38 + name > layout.width))
      place = {wide ? 250.0 : 4.0, place.y + kLegendLine};
    layout.legend.push_back(place);
    place.x += 62 + name;
  }
  layout.top += place.y;
  return layout;
}
constexpr std::size_t kStyles = 5; // classes c0 … c4

struct Scale {
  double low, high, from, to; // values and their pixels
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

std::string polyline(const std::string& css,
                     const std::string& title,
                     const std::vector<double>& losses,
                     const CellRow& cell,
                     const Scale& x,
                     const Scale& y) {
  std::string points;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (std::isfinite(losses[i]))
      points += fmt::format("{:.1f},{:.1f} ", x.at(step_of_visit(cell, i)), y.at(losses[i]));
  if (points.empty()) return "";
  points.pop_back();
  return fmt::format("<polyline class=\"curve {}\" points=\"{}\"><title>{}</title></polyline>\n",
                     css,
                     points,
                     escape_html(title));
}

std::string axes(const Scale& x, const Scale& y, double width, bool with_sign) {
  const double left = x.from, right = x.to;
  std::string out;
  for (const double tick : axis_ticks(y.low, y.high)) {
    const double value = std::abs(tick) < 1e-12 ? 0 : tick;
    const bool plain = value == 0 || !with_sign;
    out += svg_line("grid", left, y.at(tick), right, y.at(tick));
    out += svg_label("muted small",
                     left - 8,
                     y.at(tick) + 4,
                     "end",
                     plain ? fmt::format("{:.4g}", value) : fmt::format("{:+.4g}", value));
  }
  for (const double tick : axis_ticks(x.low, x.high)) {
    out += svg_line("grid", x.at(tick), y.from, x.at(tick), y.from + 5);
    out += svg_tick_label(x.at(tick), y.from + 19, fmt::format("{:.6g}", tick), width);
  }
  return out + "\n";
}

std::string legend(const std::vector<LossBundle>& all, const Layout& layout) {
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [x, y] = layout.legend[i];
    out += svg_line(fmt::format("curve c{}", i % kStyles).c_str(), x, y - 4, x + 30, y - 4);
    out += svg_label("name", x + 38, y, "start", all[i].variant, kLegendName);
  }
  return out + "\n";
}

// By bundle; empty for the reference.
std::vector<std::vector<double>> differences(const std::vector<LossBundle>& all,
                                             const LossBundle& reference) {
  std::vector<std::vector<double>> lines(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (&all[i] != &reference) lines[i] = loss_difference(all[i], reference);
  return lines;
}

std::string differences_svg(const CellReport& cell,
                            const std::vector<LossBundle>& all,
                            const Layout& layout,
                            const Scale& x) {
  const double top = layout.below_top(), bottom = layout.below_bottom();
  const auto reference = std::find_if(all.begin(), all.end(), [&](const LossBundle& bundle) {
    return !cell.comparisons.empty() && bundle.variant == cell.comparisons.front().a;
  });
  if (reference == all.end()) return "";
  const double margin = cell.cell.loss_margin;
  const auto lines = differences(all, *reference);
  double reach = 1.2 * margin;
  for (const auto& line : lines)
    for (const double value : line)
      if (std::isfinite(value)) reach = std::max(reach, 1.05 * std::abs(value));
  const Scale y{-reach, reach, bottom, top};
  const std::optional<LossTest>& test = cell.comparisons.front().loss;
  const double judged = test ? first_judged_step(*test) : x.high;
  std::string out = svg_label(
      "muted", 4, top - 12, "start", "difference from " + reference->variant, layout.width - 4);
  out += svg_rect("band", x.from, y.at(margin), x.to - x.from, y.at(-margin) - y.at(margin));
  out += svg_rect("band", x.at(judged), top, x.to - x.at(judged), bottom - top);
  out += axes(x, y, layout.width, true) + svg_line("zero", x.from, y.at(0), x.to, y.at(0)) + "\n";
  for (std::size_t i = 0; i < all.size(); ++i)
    out += polyline(fmt::format("c{}", i % kStyles),
                    all[i].variant + " minus " + reference->variant + ", mean of seeds",
                    lines[i],
                    cell.cell,
                    x,
                    y);
  return out;
}

// What the picture shows, for those who hear it.
std::string in_words(const std::vector<LossBundle>& all, double steps) {
  std::string text = fmt::format("Training loss over {:.0f} optimizer steps, mean of seeds", steps);
  for (const LossBundle& bundle : all)
    if (!bundle.mean.empty())
      text += fmt::format("; {}: from {:.4g} to {:.4g} nats per token over {} seeds",
                          printable(bundle.variant),
                          bundle.mean.front(),
                          bundle.mean.back(),
                          bundle.seeds.size());
  return text;
}

} // namespace

std::string loss_svg(const CellReport& cell, PlotShape shape) {
  const std::vector<LossBundle> all = loss_bundles(cell.loss_curves);
  if (all.empty()) return "";
  const double end = loss_training_steps(cell.cell);
  const LossRange range = loss_range(all);
  const Layout layout = layout_of(shape, all);
  const Scale x{0, end, layout.left, layout.right},
      y{range.low, range.high, layout.bottom(), layout.top};
  std::string out =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                  layout.width,
                  layout.height(),
                  escape_html(in_words(all, end)));
  out += svg_label("muted", 4, 16, "start", "training loss, nats per token") + legend(all, layout);
  out += axes(x, y, layout.width, false) + svg_line("zero", x.from, y.from, x.to, y.from);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const LossCurve* seed : all[i].seeds)
      out += polyline(fmt::format("seed c{}", i % kStyles),
                      fmt::format("{}, seed {}", seed->variant, seed->seed),
                      seed->loss,
                      cell.cell,
                      x,
                      y);
  for (std::size_t i = 0; i < all.size(); ++i)
    out += polyline(fmt::format("c{}", i % kStyles),
                    all[i].variant + ", mean of its seeds",
                    all[i].mean,
                    cell.cell,
                    x,
                    y);
  out += differences_svg(cell, all, layout, x);
  const double middle = (x.from + x.to) / 2;
  return out + svg_label("muted", middle, layout.height() - 8, "middle", "optimizer steps") +
         "</svg>\n";
}

} // namespace assay
