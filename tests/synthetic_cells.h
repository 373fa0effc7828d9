// Parts of a synthetic plan that many tests need.
#pragma once

#include "experiments/demo/synthetic_ledger.h"

namespace assay::synthetic {

// A cell with the levels "slow" and "fast", the latter with the given effect.
inline SyntheticCell two_level_cell(double effect) {
  SyntheticCell cell;
  cell.levels = {{.name = "slow"}, {.name = "fast", .effect = effect}};
  return cell;
}

// The cell compares values of training keys: "fast" trains with `fast_config`.
inline void compare_keys(LedgerData& data, const std::string& fast_config) {
  data.optimizations.at(0).scope = kScopeOfKeys;
  for (VariantRow& variant : data.variants)
    if (variant.name == "fast") variant.config_json = fast_config;
}

// A claim that "fast" saves lo … hi of the step time.
inline ClaimRow step_time_claim(double lo, double hi) {
  ClaimRow claim;
  claim.id = "claim-1";
  claim.optimization = "ema_swap";
  claim.from = "slow";
  claim.to = "fast";
  claim.text = "fast is faster";
  claim.source = "a test";
  claim.metric = "step_time";
  claim.lo = lo;
  claim.hi = hi;
  return claim;
}

// Two cells, a claim, disturbed pairs, device times: something for every part of a report.
// With configurations that a trainer takes, so that a report advises to measure again.
inline SyntheticPlan of_a_trainer(SyntheticPlan plan) {
  for (SyntheticCell& cell : plan.cells) cell.config_json.replace(0, 1, R"({"seed":1,)");
  return plan;
}

inline SyntheticPlan full_plan() {
  SyntheticPlan plan;
  plan.noise = 0.02;
  SyntheticCell evaluation = two_level_cell(-0.4);
  evaluation.name = "ema_swap/evaluation";
  evaluation.unit = "evaluation";
  SyntheticCell step = two_level_cell(-0.1);
  step.levels[1].memory_ratio = 0.8;
  step.disturbed_share = 0.02;
  step.device_times = true;
  plan.cells = {step, evaluation};
  plan.claims = {step_time_claim(0.08, 0.12)};
  return plan;
}

} // namespace assay::synthetic
