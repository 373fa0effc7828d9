// Difference of two means of independent samples whose variances may differ (Welch 1947, Biometrika
// 34, 28), with the degrees of freedom of Satterthwaite (1946, Biometrics Bulletin 2, 110).
// Reference values: tests/core/scipy_vectors.json.
#pragma once

#include <optional>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

struct MeanDifference {
  double value = 0; // mean of the second sample minus that of the first
  double error = 0; // its standard error, sqrt(s1^2 / n1 + s2^2 / n2)
  double df = 0;    // between min(n1, n2) - 1 and n1 + n2 - 2

  Interval interval(double alpha) const; // value +- t_{1 - alpha/2, df} error
};

// Nothing unless each sample has 2 values.
std::optional<MeanDifference> mean_difference(const std::vector<double>& first,
                                              const std::vector<double>& second);

} // namespace assay
