// One synthetic cell, and the first comparison of its report.
#pragma once

#include <utility>

#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"

namespace assay {

inline synthetic::SyntheticPlan plan_of(synthetic::SyntheticCell cell) {
  synthetic::SyntheticPlan plan;
  plan.seed = 5;
  plan.noise = 0.02;
  plan.cells = {std::move(cell)};
  return plan;
}

inline const Comparison& first(const Report& report) {
  return report.cells.at(0).comparisons.at(0);
}

} // namespace assay
