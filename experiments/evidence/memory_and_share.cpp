#include "experiments/evidence/memory_and_share.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

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

// Train-step time by timed launch of the cell.
std::map<std::int64_t, double> step_times(const CellView& cell) {
  std::map<std::int64_t, double> by_launch;
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->path == "time/step_ns" && metric->value > 0)
        by_launch[launch->id] = metric->value;
  return by_launch;
}

// nullopt: no such number.
std::optional<double> config_number(const CellView& cell, const char* key) {
  const auto found = cell.config->find(key);
  if (found == cell.config->end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

double median_a_ns(const LaunchPairs& launch) {
  std::vector<double> times;
  for (const Pair& pair : launch.pairs)
    if (pair.excluded.empty()) times.push_back(pair.a_ns);
  return median(std::move(times));
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
  else if (effect.launches == 1 && effect.noise)
    effect.log_ratio.at_95 = effect.log_ratio.judged =
        Interval{value - *effect.noise, value + *effect.noise};
  return effect;
}

std::optional<EndToEnd>
end_to_end(const CellView& cell, const PairSet& pairs, const Effect& effect, double judged_alpha) {
  if (cell.cell->unit != "evaluation") return std::nullopt;
  const auto every = config_number(cell, "eval_interval");
  const auto steps = step_times(cell);
  if (!every || *every <= 0 || steps.empty()) return std::nullopt;
  EndToEnd result;
  result.every = *every;
  std::vector<double> all;
  for (const auto& [launch, value] : steps) all.push_back(value);
  result.step_ns = median(std::move(all));
  std::vector<double> ratios;
  for (const LaunchEffect& launch : effect.launches) {
    const auto from = std::find_if(pairs.launches.begin(),
                                   pairs.launches.end(),
                                   [&](const LaunchPairs& x) { return x.launch == launch.launch; });
    const double a_ns = median_a_ns(*from);
    const auto own = steps.find(launch.launch);
    const double step = own == steps.end() ? result.step_ns : own->second;
    const double more = a_ns * std::expm1(launch.theta);
    ratios.push_back(std::log1p(more / (result.every * step + a_ns)));
  }
  result.log_ratio = estimate(std::move(ratios), judged_alpha);
  return result;
}

} // namespace assay
