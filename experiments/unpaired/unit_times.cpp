#include "experiments/unpaired/unit_times.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/statistics/statistics.h"
#include "experiments/analysis/wording.h"
#include "experiments/evidence/pairs.h"

namespace assay {

namespace {

std::optional<double> tokens_per_unit(const CellView& cell, const VariantRow& variant) {
  std::int64_t tokens = 0, units = 0;
  for (const LaunchRow* launch : cell.counted)
    for (const VisitRow* visit : cell.visits(launch->id, variant.id)) {
      if (visit->warmup) continue;
      tokens += visit->tokens;
      units += visit->steps;
    }
  if (units == 0) return std::nullopt;
  return static_cast<double>(tokens) / static_cast<double>(units);
}

// Of every variant, in the order of rounds.
std::vector<std::int64_t> counted_times(const CellView& cell, const LaunchRow& launch) {
  std::vector<std::int64_t> times;
  for (const VariantRow* variant : cell.variants)
    for (const VisitRow* visit : cell.visits(launch.id, variant->id))
      if (!visit->warmup) times.push_back(visit->wall_ns);
  return times;
}

} // namespace

UnitTimes unit_times(const CellView& cell, const VariantRow& variant) {
  UnitTimes times;
  times.tokens_per_unit = tokens_per_unit(cell, variant);
  // A variant paired with itself: the rules that exclude pairs exclude its visits.
  for (const LaunchPairs& launch : collect_pairs(cell, variant, variant).launches) {
    if (!launch.counts()) continue;
    std::vector<double> logs;
    for (const Pair& pair : launch.pairs)
      if (pair.excluded.empty()) logs.push_back(std::log(pair.a_ns));
    times.by_launch.push_back(median(std::move(logs)));
  }
  return times;
}

std::string copied_launch(const CellView& first, const CellView& second) {
  std::set<std::vector<std::int64_t>> known;
  for (const LaunchRow* launch : second.counted) known.insert(counted_times(second, *launch));
  known.erase(std::vector<std::int64_t>{});
  for (const LaunchRow* launch : first.counted)
    if (known.contains(counted_times(first, *launch))) return launch_text(*launch);
  return "";
}

} // namespace assay
