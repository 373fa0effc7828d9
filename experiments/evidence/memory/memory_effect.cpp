#include "experiments/evidence/memory/memory_effect.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/ledger/memory_parts.h"

namespace assay {

namespace {

constexpr double kEqualRatio = 1e-12;  // of ln ratios: byte counts are integers, so equal is equal
constexpr int kLaunchesThatRepeat = 3; // without a control

std::map<std::int64_t, double> peak_bytes(const CellView& cell, const VariantRow& variant) {
  std::map<std::int64_t, double> by_launch;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Memory))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path == "memory/peak_bytes" && metric->value > 0)
        by_launch[launch->id] = metric->value;
  return by_launch;
}

std::string moment_of(const CellView& cell, const VariantRow& variant) {
  std::string moment;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Memory))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path == "memory/peak_bytes")
        moment = metric->detail;
  return moment;
}

// How far the reference is from itself, in launches that compare it.
std::optional<double> memory_noise(const CellView& cell) {
  if (!cell.baseline || !cell.control) return std::nullopt;
  const auto again = peak_bytes(cell, *cell.control);
  std::optional<double> noise;
  for (const auto& [launch, bytes] : peak_bytes(cell, *cell.baseline)) {
    const auto found = again.find(launch);
    if (found == again.end()) return std::nullopt;
    noise = std::max(noise.value_or(0), std::abs(std::log(found->second / bytes)));
  }
  return noise;
}

} // namespace

std::optional<MemoryEffect>
memory_effect(const CellView& cell, const VariantRow& a, const VariantRow& b, double judged_alpha) {
  const auto bytes_a = peak_bytes(cell, a), bytes_b = peak_bytes(cell, b);
  std::vector<double> in_a, in_b, ratios;
  for (const auto& [launch, value] : bytes_a)
    if (const auto found = bytes_b.find(launch); found != bytes_b.end()) {
      in_a.push_back(value);
      in_b.push_back(found->second);
      ratios.push_back(std::log(found->second / value));
    }
  if (ratios.empty()) return std::nullopt;
  MemoryEffect effect;
  effect.launches = static_cast<int>(ratios.size());
  effect.a_bytes = median(std::move(in_a));
  effect.b_bytes = median(std::move(in_b));
  effect.noise = memory_noise(cell);
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  effect.exact =
      *high - *low < kEqualRatio &&
      (effect.noise ? *effect.noise < kEqualRatio : effect.launches >= kLaunchesThatRepeat);
  effect.log_ratio = estimate(std::move(ratios), judged_alpha);
  const double value = effect.log_ratio.value;
  if (effect.exact)
    effect.log_ratio.at_95 = effect.log_ratio.judged = Interval{value, value};
  else if (effect.launches == 1 && effect.noise && !cell.cell->turns)
    effect.log_ratio.at_95 = effect.log_ratio.judged =
        Interval{value - *effect.noise, value + *effect.noise};
  effect.parts = memory_parts(cell, a, b);
  effect.a_curve = step_memory(cell, a);
  effect.b_curve = step_memory(cell, b);
  effect.a_moment = moment_of(cell, a);
  effect.b_moment = moment_of(cell, b);
  return effect;
}

std::optional<Estimate> effect_in_phases(const MemoryEffect& memory, const std::string& phases) {
  double a = 0, b = 0;
  for (const MemoryPartEffect& part : memory.parts)
    if (has_phase(phases, part.phase)) {
      a += part.a_bytes;
      b += part.b_bytes;
    }
  if (a <= 0 || b <= 0) return std::nullopt;
  Estimate estimate = memory.log_ratio;
  estimate.value = std::log(b / a);
  const auto moved = [&](std::optional<Interval>& interval) {
    if (!interval) return;
    const double scale = memory.a_bytes / a, middle = memory.log_ratio.value;
    interval = Interval{estimate.value + scale * (interval->lower - middle),
                        estimate.value + scale * (interval->upper - middle)};
  };
  moved(estimate.judged);
  moved(estimate.at_95);
  return estimate;
}

} // namespace assay
