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

// Pixels: the picture, the plot of losses, and below it that of differences.
constexpr double kWidth = 980, kHeight = 500, kLeft = 64, kRight = 964;
constexpr double kTop = 44, kBottom = 266, kBelowTop = 318, kBelowBottom = 446;
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

std::string axes(const Scale& x, const Scale& y, bool with_sign) {
  std::string out;
  for (const double tick : axis_ticks(y.low, y.high)) {
    const double value = std::abs(tick) < 1e-12 ? 0 : tick;
    const bool plain = value == 0 || !with_sign;
    out += svg_line("grid", kLeft, y.at(tick), kRight, y.at(tick));
    out += svg_label("muted small",
                     kLeft - 8,
                     y.at(tick) + 4,
                     "end",
                     plain ? fmt::format("{:.4g}", value) : fmt::format("{:+.4g}", value));
  }
  for (const double tick : axis_ticks(x.low, x.high)) {
    out += svg_line("grid", x.at(tick), y.from, x.at(tick), y.from + 5);
    out += svg_label("muted small", x.at(tick), y.from + 19, "middle", fmt::format("{:.6g}", tick));
  }
  return out + "\n";
}

std::string legend(const std::vector<LossBundle>& all) {
  std::string out;
  double x = 250;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = shortened(all[i].variant, 24);
    out += svg_line(fmt::format("curve c{}", i % kStyles).c_str(), x, 12, x + 30, 12);
    out += svg_label("name", x + 38, 16, "start", name);
    x += 62 + 7.6 * static_cast<double>(name.size());
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

std::string
differences_svg(const CellReport& cell, const std::vector<LossBundle>& all, const Scale& x) {
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
  const Scale y{-reach, reach, kBelowBottom, kBelowTop};
  const double judged = first_judged_step(cell.cell);
  std::string out = svg_label(
      "muted", 4, kBelowTop - 12, "start", "difference from " + shortened(reference->variant, 40));
  out += svg_rect("band", kLeft, y.at(margin), kRight - kLeft, y.at(-margin) - y.at(margin));
  out += svg_rect("band", x.at(judged), kBelowTop, kRight - x.at(judged), kBelowBottom - kBelowTop);
  out += axes(x, y, true) + svg_line("zero", kLeft, y.at(0), kRight, y.at(0)) + "\n";
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

std::string loss_svg(const CellReport& cell) {
  const std::vector<LossBundle> all = loss_bundles(cell.loss_curves);
  if (all.empty()) return "";
  const double end = loss_training_steps(cell.cell);
  const LossRange range = loss_range(all);
  const Scale x{0, end, kLeft, kRight}, y{range.low, range.high, kBottom, kTop};
  std::string out =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                  kWidth,
                  kHeight,
                  escape_html(in_words(all, end)));
  out += svg_label("muted", 4, 16, "start", "training loss, nats per token") + legend(all);
  out += axes(x, y, false) + svg_line("zero", kLeft, kBottom, kRight, kBottom);
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
  out += differences_svg(cell, all, x);
  const double middle = (kLeft + kRight) / 2;
  return out + svg_label("muted", middle, kHeight - 8, "middle", "optimizer steps") + "</svg>\n";
}

} // namespace assay
