// Two synthetic results of one cell, measured apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiments/unpaired/unpaired.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/synthetic_cells.h"

namespace assay::test {

// Cell `ema_swap` with the levels slow and fast; another seed is another measurement.
inline LedgerData run_of(std::uint64_t seed, double effect = -0.10, int launches = 5) {
  synthetic::SyntheticCell cell = synthetic::two_level_cell(effect);
  cell.timed_launches = launches;
  synthetic::SyntheticPlan plan = plan_of(std::move(cell));
  plan.seed = seed;
  plan.rounds = 8;
  return synthetic::synthetic_ledger(plan);
}

inline std::int64_t variant_id(const LedgerData& data, const std::string& name) {
  return std::ranges::find(data.variants, name, &VariantRow::name)->id;
}

// Every visit of a variant takes the time that is given for its launch.
inline void
set_times(LedgerData& data, const std::string& variant, const std::vector<double>& milliseconds) {
  const std::int64_t id = variant_id(data, variant);
  std::size_t next = 0;
  for (const LaunchRow& launch : data.launches) {
    if (launch.kind != LaunchKind::Timed) continue;
    const double ms = milliseconds.at(next++);
    for (VisitRow& visit : data.visits)
      if (visit.launch == launch.id && visit.variant == id)
        visit.wall_ns = std::llround(1e6 * ms) * visit.steps;
  }
}

inline Result<UnpairedReport> compared(const LedgerData& first, const LedgerData& second) {
  static const std::string kFirst = "old", kSecond = "new";
  return compare_runs({first, kFirst}, {second, kSecond});
}

inline const TimeChange& time_of(const UnpairedReport& report, const std::string& variant) {
  return *std::ranges::find(report.cells.at(0).times, variant, &TimeChange::variant);
}

} // namespace assay::test
