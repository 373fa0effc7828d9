#include "experiments/evidence/data_wait.h"

#include <utility>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

std::optional<double> wait_of(const CellView& cell, const VariantRow& variant) {
  std::vector<double> values;
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path == kDataWaitMetric)
        values.push_back(metric->value);
  if (values.empty()) return std::nullopt;
  return median(std::move(values));
}

} // namespace

std::optional<DataWait> data_wait(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  const std::optional<double> of_a = wait_of(cell, a), of_b = wait_of(cell, b);
  if (!of_a || !of_b) return std::nullopt;
  return DataWait{*of_a, *of_b};
}

} // namespace assay
