// Levels of the optimizations that a family has, each with its gates and its span.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/gates/gates.h"
#include "tests/model/model_fixture.h"

namespace assay::testing_model {

struct RowLevel {
  const Optimization* row;
  const Level* level;
};

// Of rows that have something to switch in this family and one process.
inline std::vector<RowLevel> row_levels(const std::string& family) {
  std::vector<RowLevel> all;
  for (const Optimization& row : optimizations().all())
    if ((row.family.empty() || row.family == family) && !row.needs_ranks && !row.hidden &&
        row.unit != Unit::PipelineStep) // data/loader_rows_test.cpp
      for (const Level& level : row.levels) all.push_back({&row, &level});
  return all;
}

// `small`, a model of the family, with what the row switches.
inline TrainConfig
config_for(const Optimization& row, const std::string& family, const TrainConfig& small) {
  if (row.family == family) return small_config_for(row);
  TrainConfig config = small;
  if (row.name == "weights16" || row.name == "residual16") config.precision = Precision::Bf16;
  if (row.name == "residual16") config.norms = Norms::Fused;
  if (row.name == "muon_form") config.optimizer = OptimizerKind::Muon;
  return config;
}

inline bool has_needs(const RowLevel& at, TrainConfig config) {
  at.level->apply(config);
  bool has = static_cast<bool>(resolve(config));
  for (const Need& need : at.row->needs) has = has && meets(config, *at.row, need);
  return has;
}

// The level passes its gates, unless it is wrong, and shows its own span alone. `config`: of
// config_for().
inline void expect_level(const RowLevel& at, const TrainConfig& config) {
  const auto& [row, level] = at;
  if (!has_needs(at, config)) GTEST_SKIP() << "the level needs a GPU";
  TrainConfig reference = config, changed = config;
  row->levels.front().apply(reference);
  level->apply(changed);
  const std::vector<Batch> batches = ragged_batches(reference, 4);
  bool passed = true;
  for (const GateResult& gate : run_gates(*row, reference, changed, batches)) {
    passed = passed && gate.passed;
    EXPECT_TRUE(gate.passed || level->wrong)
        << gate.name << ": " << gate.value << " > " << gate.bound << " (" << gate.detail << ")";
  }
  EXPECT_EQ(passed, !level->wrong);
  const CodePath seen = record_code_path(*row, changed, batches);
  for (const Level& other : row->levels) {
    const bool shown = seen.spans.count(other.span) > 0 || seen.counters.count(other.span) > 0;
    EXPECT_EQ(shown, other.span == level->span) << other.span;
  }
}

} // namespace assay::testing_model
