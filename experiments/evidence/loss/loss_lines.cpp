#include "experiments/evidence/loss/loss_lines.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace assay {

std::vector<LossBundle> loss_bundles(const std::vector<LossCurve>& curves) {
  std::vector<LossBundle> result;
  for (const LossCurve& curve : curves) {
    if (result.empty() || result.back().variant != curve.variant)
      result.push_back({curve.variant, {}, {}});
    result.back().seeds.push_back(&curve);
  }
  for (LossBundle& bundle : result) {
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

LossRange loss_range(const std::vector<LossBundle>& bundles) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LossBundle& bundle : bundles)
    for (const LossCurve* curve : bundle.seeds)
      for (const double loss : curve->loss) {
        if (!std::isfinite(loss)) continue;
        low = std::min(low, loss);
        high = std::max(high, loss);
      }
  if (low > high) low = high = 0;
  const double room = std::max(0.04 * (high - low), 0.01);
  return {low - room, high + room};
}

std::vector<double> loss_difference(const LossBundle& variant, const LossBundle& reference) {
  std::vector<std::pair<const LossCurve*, const LossCurve*>> pairs;
  for (const LossCurve* b : variant.seeds)
    for (const LossCurve* a : reference.seeds)
      if (a->seed == b->seed) pairs.emplace_back(a, b);
  if (pairs.empty()) return {};
  std::size_t length = pairs.front().first->loss.size();
  for (const auto& [a, b] : pairs) length = std::min({length, a->loss.size(), b->loss.size()});
  std::vector<double> result(length);
  for (std::size_t i = 0; i < length; ++i) {
    for (const auto& [a, b] : pairs) result[i] += b->loss[i] - a->loss[i];
    result[i] /= static_cast<double>(pairs.size());
  }
  return result;
}

double step_of_visit(const CellRow& cell, std::size_t visit) {
  return (static_cast<double>(visit) + 0.5) * cell.loss_steps;
}

} // namespace assay
