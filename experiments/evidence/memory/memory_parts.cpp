#include "experiments/evidence/memory/memory_parts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "core/ledger/memory_parts.h"
#include "core/statistics/statistics.h"

namespace assay {

namespace {

using Name = std::pair<std::string, std::string>; // phase, module
using Parts = std::map<Name, double>;

auto order(const std::string& phase) {
  return std::ranges::find(kMemoryPhases, phase, &MemoryPhase::name) - std::begin(kMemoryPhases);
}

std::map<std::int64_t, Parts> parts_by_launch(const CellView& cell, const VariantRow& variant) {
  std::map<std::int64_t, Parts> launches;
  for (const LaunchRow* launch : cell.complete(LaunchKind::Memory))
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id)
        if (const auto name = memory_part_of(metric->path))
          launches[launch->id][*name] += metric->value;
  return launches;
}

// "layers.3.feed_forward" -> "feed_forward"
std::string without_layer(const std::string& module) {
  constexpr std::string_view kLayers = "layers.";
  if (!module.starts_with(kLayers)) return module;
  return module.substr(module.find('.', kLayers.size()) + 1);
}

template <class NameOf>
std::vector<MemoryPartEffect> summed(const std::vector<MemoryPartEffect>& parts, NameOf name_of) {
  std::vector<MemoryPartEffect> sums;
  for (const MemoryPartEffect& part : parts) {
    const std::string module = name_of(part);
    auto known = std::ranges::find_if(sums, [&](const MemoryPartEffect& one) {
      return one.phase == part.phase && one.module == module;
    });
    if (known == sums.end()) known = sums.insert(sums.end(), {part.phase, module});
    known->a_bytes += part.a_bytes;
    known->b_bytes += part.b_bytes;
  }
  return sums;
}

} // namespace

std::vector<MemoryPartEffect>
memory_parts(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  const auto of_a = parts_by_launch(cell, a), of_b = parts_by_launch(cell, b);
  std::map<Name, std::pair<std::vector<double>, std::vector<double>>> values;
  for (const auto& [launch, parts] : of_a)
    if (const auto other = of_b.find(launch); other != of_b.end())
      for (const Parts* side : {&parts, &other->second})
        for (const auto& [name, bytes] : *side) values[name];
  for (auto& [name, sides] : values)
    for (const auto& [launch, parts] : of_a)
      if (const auto other = of_b.find(launch); other != of_b.end()) {
        const auto bytes = [&name = name](const Parts& side) {
          const auto found = side.find(name);
          return found == side.end() ? 0.0 : found->second;
        };
        sides.first.push_back(bytes(parts));
        sides.second.push_back(bytes(other->second));
      }
  std::vector<MemoryPartEffect> result;
  for (auto& [name, sides] : values)
    result.push_back(
        {name.first, name.second, median(std::move(sides.first)), median(std::move(sides.second))});
  std::stable_sort(result.begin(), result.end(), [](const auto& x, const auto& y) {
    return order(x.phase) < order(y.phase);
  });
  return result;
}

std::vector<MemoryPartEffect> by_phase(const std::vector<MemoryPartEffect>& parts) {
  return summed(parts, [](const MemoryPartEffect&) { return std::string(); });
}

std::vector<MemoryPartEffect> by_module(const std::vector<MemoryPartEffect>& parts) {
  auto sums =
      summed(parts, [](const MemoryPartEffect& part) { return without_layer(part.module); });
  std::stable_sort(sums.begin(), sums.end(), [](const auto& x, const auto& y) {
    const double of_x = std::abs(x.difference()), of_y = std::abs(y.difference());
    return of_x != of_y ? of_x > of_y : x.a_bytes > y.a_bytes;
  });
  return sums;
}

} // namespace assay
