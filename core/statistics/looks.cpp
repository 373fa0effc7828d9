#include "core/statistics/looks.h"

#include <cmath>
#include <numbers>

namespace assay {

namespace {

// With estimated scatter the looks agree less than normal means do, so t intervals at the levels of
// alpha reject more often than alpha; at this share of it they reject at alpha (LooksSimulation in
// tests/core/looks_test.cpp).
constexpr double kOfAlpha = 0.92;
constexpr int kIntervals = 400; // of Simpson's rule, even

double above(double z) { // P(Z > z)
  return std::erfc(z / std::numbers::sqrt2) / 2;
}

double density(double z) {
  return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
}

// Brownian motion over the share of launches, of paths that no look has stopped yet: its density at
// points of [-bound, bound], with Simpson's weights.
struct Score {
  std::vector<double> at, weighted;
  double time = 0;

  // P(|score at `time` + step| > bound).
  double outside(double bound, double step) const {
    if (at.empty()) return 2 * above(bound / std::sqrt(time + step));
    const double sd = std::sqrt(step);
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      sum += weighted[i] * (above((bound - at[i]) / sd) + above((bound + at[i]) / sd));
    return sum;
  }
  double density_at(double x, double step) const {
    const double sd = std::sqrt(time + step);
    if (at.empty()) return density(x / sd) / sd;
    double sum = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      sum += weighted[i] * density((x - at[i]) / std::sqrt(step));
    return sum / std::sqrt(step);
  }
  Score after(double bound, double step) const {
    Score next;
    next.time = time + step;
    const double width = 2 * bound / kIntervals;
    for (int i = 0; i <= kIntervals; ++i) {
      const double simpson = i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
      next.at.push_back(-bound + i * width);
      next.weighted.push_back(density_at(next.at.back(), step) * simpson * width / 3);
    }
    return next;
  }
};

// The bound that a share `spent` of the paths is outside of.
double bound_of(const Score& score, double step, double spent) {
  double low = 0, high = 40 * std::sqrt(score.time + step);
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (score.outside(middle, step) > spent ? low : high) = middle;
  }
  return high;
}

} // namespace

std::vector<double> look_levels(double alpha, const std::vector<int>& looks) {
  std::vector<double> levels;
  const double to_spend = looks.size() == 1 ? alpha : kOfAlpha * alpha;
  Score score;
  double spent = 0;
  for (const int launches : looks) {
    const double time = static_cast<double>(launches) / looks.back(), step = time - score.time;
    const double spent_now = to_spend * time * time;
    const double bound = bound_of(score, step, spent_now - spent);
    levels.push_back(2 * above(bound / std::sqrt(time)));
    if (launches != looks.back()) score = score.after(bound, step);
    spent = spent_now;
  }
  return levels;
}

} // namespace assay
