// Runs the small plan over the fake worker, in a directory of the test's own.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/experiments/support.h"

namespace assay::test {

class RunnerTest : public testing::Test {
protected:
  RunSummary run(const std::string& behaviour = "", RunOptions options = fake_options()) {
    const FakeBehaviour fake(behaviour + ";count=" + (scratch_ / "count"));
    return run_plan(plan_, scratch_ / "r", options);
  }
  LedgerData ledger() const { return value_or_throw(read_ledger(scratch_ / "r")); }
  std::vector<LaunchRow> launches(LaunchKind kind, const std::string& cell) const {
    std::vector<LaunchRow> result;
    const LedgerData data = ledger();
    for (const LaunchRow& row : data.launches)
      if (row.kind == kind && data.cell(row.cell).name == cell) result.push_back(row);
    return result;
  }
  Scratch scratch_;
  Plan plan_ = small_plan(scratch_);
};

inline std::map<int, std::vector<const VisitRow*>> rounds_of(const LedgerData& data,
                                                             std::int64_t launch) {
  std::map<int, std::vector<const VisitRow*>> rounds;
  for (const VisitRow& visit : data.visits)
    if (visit.launch == launch) rounds[visit.round].push_back(&visit);
  return rounds;
}

} // namespace assay::test
