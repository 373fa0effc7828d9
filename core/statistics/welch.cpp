#include "core/statistics/welch.h"

#include <cmath>

namespace assay {

Interval MeanDifference::interval(double alpha) const {
  const double reach = student_quantile(1 - alpha / 2, df) * error;
  return {value - reach, value + reach};
}

std::optional<MeanDifference> mean_difference(const std::vector<double>& first,
                                              const std::vector<double>& second) {
  if (first.size() < 2 || second.size() < 2) return std::nullopt;
  const auto n1 = static_cast<double>(first.size()), n2 = static_cast<double>(second.size());
  const double v1 = std::pow(sample_sd(first), 2) / n1, v2 = std::pow(sample_sd(second), 2) / n2;
  MeanDifference result{mean(second) - mean(first), std::sqrt(v1 + v2), n1 + n2 - 2};
  // Values that do not vary give 0/0; their interval is a point at any degrees of freedom.
  if (v1 + v2 > 0) result.df = std::pow(v1 + v2, 2) / (v1 * v1 / (n1 - 1) + v2 * v2 / (n2 - 1));
  return result;
}

} // namespace assay
