#include "experiments/evidence/end_to_end.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace assay {

namespace {

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

} // namespace

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
