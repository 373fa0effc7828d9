#include "experiments/evidence/first_step.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

struct First {
  double ns = 0, times = 0;
};

std::optional<First>
first_of(const CellView& cell, const LaunchRow& launch, const VariantRow& variant) {
  std::vector<double> counted;
  const VisitRow* first = nullptr;
  for (const VisitRow* visit : cell.visits(launch.id, variant.id)) {
    if (first == nullptr || visit->round < first->round) first = visit;
    const auto steps = std::min<std::ptrdiff_t>(visit->steps, std::ssize(visit->sample_ns));
    if (!visit->warmup)
      counted.insert(counted.end(), visit->sample_ns.end() - steps, visit->sample_ns.end());
  }
  if (counted.empty() || !first->warmup || first->position != 0 || first->sample_ns.empty())
    return std::nullopt;
  const auto ns = static_cast<double>(first->sample_ns.front());
  const double usual = median(std::move(counted));
  return usual > 0 ? std::optional(First{ns, ns / usual}) : std::nullopt;
}

} // namespace

std::optional<FirstStep> first_step(const CellView& cell, const VariantRow& variant) {
  if (cell.cell->unit == "evaluation") return std::nullopt;
  std::vector<double> ns, times;
  for (const LaunchRow* launch : cell.counted)
    if (const std::optional<First> first = first_of(cell, *launch, variant)) {
      ns.push_back(first->ns);
      times.push_back(first->times);
    }
  if (ns.empty()) return std::nullopt;
  const int launches = static_cast<int>(ns.size());
  return FirstStep{median(std::move(ns)), median(std::move(times)), launches};
}

} // namespace assay
