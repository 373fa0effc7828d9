// One synthetic cell, and the first comparison of its report.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

inline bool has_reason(const Verdict& verdict, ReasonCode code) {
  return std::any_of(verdict.reasons.begin(), verdict.reasons.end(), [&](const Reason& reason) {
    return reason.code == code;
  });
}

inline const Alarm* find_alarm(const Report& report, AlarmCode code) {
  for (const Alarm& alarm : report.alarms)
    if (alarm.code == code) return &alarm;
  return nullptr;
}

inline std::vector<std::string> texts(const std::vector<Reason>& reasons) {
  std::vector<std::string> result;
  for (const Reason& reason : reasons) result.push_back(reason.text);
  return result;
}

} // namespace assay
