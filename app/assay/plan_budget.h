// `assay plan --budget`: how many launches and rounds detect the least effect in a given time.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "experiments/plan/plan.h"
#include "experiments/report/text_layout.h"

namespace assay::cli {

struct BudgetChoice {
  double budget = 0; // seconds
  int launches = 0;  // 0: no plan fits, or none that fits can give a verdict
  bool fits = false; // a plan does
  int rounds = 0;    // 0: every cell has rounds of its own
  double seconds = 0;
  double mde = 0; // of ln(time ratio), the largest of the cells that can give a verdict
};

// What a plan with these launches and rounds of all cells takes and can see.
using EstimateOf = std::function<PlanEstimate(int launches, int rounds)>;

// Of plans that take at most `seconds`, the one whose least sensitive cell detects the least
// effect; cells with fewer launches of their own than a verdict needs are left out of that. A
// plan's time is linear in its rounds. Rounds are multiples of 2 between 6, below which a launch
// has no interval of its own, and 2,000.
BudgetChoice choose_for_budget(double seconds, const EstimateOf& estimate_of);

nlohmann::json budget_json(const BudgetChoice& choice);
void print_budget(const BudgetChoice& choice, const TableStyle& style);

} // namespace assay::cli
