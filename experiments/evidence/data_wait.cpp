#include "experiments/evidence/data_wait.h"

#include <utility>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

std::optional<double> median_of(const char* path, const CellView& cell, const VariantRow& variant) {
  std::vector<double> values;
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id && metric->path == path) values.push_back(metric->value);
  if (values.empty()) return std::nullopt;
  return median(std::move(values));
}

} // namespace

std::optional<DataWait> data_wait(const CellView& cell, const VariantRow& a, const VariantRow& b) {
  const std::optional<double> of_a = median_of(kDataWaitMetric, cell, a),
                              of_b = median_of(kDataWaitMetric, cell, b);
  if (!of_a || !of_b) return std::nullopt;
  return DataWait{*of_a,
                  *of_b,
                  median_of(kTokensTwiceMetric, cell, a).value_or(0),
                  median_of(kTokensTwiceMetric, cell, b).value_or(0)};
}

} // namespace assay
