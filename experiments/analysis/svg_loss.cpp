// Training loss over optimizer steps.
#include <algorithm>
#include <cmath>

#include "core/text.h"
#include "experiments/analysis/svg.h"
#include "experiments/analysis/svg_marks.h"

namespace assay {

namespace {

constexpr double kWidth = 980, kHeight = 340; // pixels, as are the plot's edges
constexpr double kLeft = 64, kRight = 964, kTop = 44, kBottom = 286;
constexpr std::size_t kStyles = 5; // classes c0 … c4

// A variant's curves, and their mean over the seeds that reached each visit.
struct Bundle {
  std::string variant;
  std::vector<const LossCurve*> seeds;
  std::vector<double> mean;
};

std::vector<Bundle> bundles(const std::vector<LossCurve>& curves) {
  std::vector<Bundle> result;
  for (const LossCurve& curve : curves) {
    if (result.empty() || result.back().variant != curve.variant)
      result.push_back({curve.variant, {}, {}});
    result.back().seeds.push_back(&curve);
  }
  for (Bundle& bundle : result) {
    // Where a seed ends early the mean ends too: another set of seeds is another curve.
    std::size_t shortest = bundle.seeds.front()->loss.size();
    for (const LossCurve* seed : bundle.seeds) shortest = std::min(shortest, seed->loss.size());
    for (std::size_t i = 0; i < shortest; ++i) {
      double sum = 0;
      for (const LossCurve* seed : bundle.seeds) sum += seed->loss[i];
      bundle.mean.push_back(sum / static_cast<double>(bundle.seeds.size()));
    }
  }
  return result;
}

struct Scale {
  double low, high, from, to; // values and their pixels
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
};

Scale loss_scale(const std::vector<LossCurve>& curves) {
  double low = INFINITY, high = -INFINITY;
  for (const LossCurve& curve : curves)
    for (const double loss : curve.loss) {
      if (!std::isfinite(loss)) continue;
      low = std::min(low, loss);
      high = std::max(high, loss);
    }
  if (low > high) low = high = 0;
  const double margin = std::max(0.04 * (high - low), 0.01);
  return {low - margin, high + margin, kBottom, kTop};
}

// Values stand in the middle of the steps that they are means over.
std::string polyline(const std::string& css,
                     const std::string& title,
                     const std::vector<double>& losses,
                     int steps,
                     const Scale& x,
                     const Scale& y) {
  std::string points;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (std::isfinite(losses[i]))
      points += fmt::format(
          "{:.1f},{:.1f} ", x.at((static_cast<double>(i) + 0.5) * steps), y.at(losses[i]));
  if (points.empty()) return "";
  points.pop_back();
  return fmt::format("<polyline class=\"curve {}\" points=\"{}\"><title>{}</title></polyline>\n",
                     css,
                     points,
                     escape_html(title));
}

std::string axes(const Scale& x, const Scale& y) {
  std::string out;
  for (const double tick : axis_ticks(y.low, y.high)) {
    out += svg_line("grid", kLeft, y.at(tick), kRight, y.at(tick));
    out += svg_label("muted small", kLeft - 8, y.at(tick) + 4, "end", fmt::format("{:.4g}", tick));
  }
  for (const double tick : axis_ticks(x.low, x.high)) {
    out += svg_line("grid", x.at(tick), kBottom, x.at(tick), kBottom + 5);
    out +=
        svg_label("muted small", x.at(tick), kBottom + 19, "middle", fmt::format("{:.6g}", tick));
  }
  out += svg_line("zero", kLeft, kBottom, kRight, kBottom);
  out += svg_label("muted", (kLeft + kRight) / 2, kBottom + 42, "middle", "optimizer steps");
  return out + svg_label("muted", 4, 16, "start", "training loss, nats a token") + "\n";
}

std::string legend(const std::vector<Bundle>& all) {
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

// What the picture shows, for those who hear it.
std::string in_words(const std::vector<Bundle>& all, double steps) {
  std::string text = fmt::format("Training loss over {:.0f} optimizer steps, mean of seeds", steps);
  for (const Bundle& bundle : all)
    if (!bundle.mean.empty())
      text += fmt::format("; {}: from {:.4g} to {:.4g} nats a token over {} seeds",
                          printable(bundle.variant),
                          bundle.mean.front(),
                          bundle.mean.back(),
                          bundle.seeds.size());
  return text;
}

} // namespace

std::string loss_svg(const std::vector<LossCurve>& curves, int steps) {
  const std::vector<Bundle> all = bundles(curves);
  std::size_t longest = 0;
  for (const LossCurve& curve : curves) longest = std::max(longest, curve.loss.size());
  if (longest == 0) return "";
  const double end = static_cast<double>(longest) * steps;
  const Scale x{0, end, kLeft, kRight}, y = loss_scale(curves);
  std::string out =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">\n",
                  kWidth,
                  kHeight,
                  escape_html(in_words(all, end)));
  out += axes(x, y) + legend(all);
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const LossCurve* seed : all[i].seeds)
      out += polyline(fmt::format("seed c{}", i % kStyles),
                      fmt::format("{}, seed {}", seed->variant, seed->seed),
                      seed->loss,
                      steps,
                      x,
                      y);
  for (std::size_t i = 0; i < all.size(); ++i)
    out += polyline(fmt::format("c{}", i % kStyles),
                    all[i].variant + ", mean of its seeds",
                    all[i].mean,
                    steps,
                    x,
                    y);
  return out + "</svg>\n";
}

} // namespace assay
