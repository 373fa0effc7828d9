// A finished plan with two cells and known effects, for tests of the viewer.
#pragma once

#include <string>

#include "experiments/demo/synthetic_ledger.h"

namespace assay {

struct SamplePlan {
  int launches = 5;
  double varlen = -0.12; // theta of varlen against mask_dense
  double guard = 0;      // theta of the second cell
  bool parity_passes = true;
};

inline synthetic::SyntheticCell
sample_cell(const std::string& name, const char* baseline, const char* candidate, double theta) {
  synthetic::SyntheticCell cell;
  cell.name = cell.optimization = name;
  cell.config_json = R"({"eval_interval":100})";
  cell.levels = {{.name = baseline}, {.name = candidate, .effect = theta, .memory_ratio = 0.8}};
  return cell;
}

inline LedgerData finished(const SamplePlan& sample = {}) {
  synthetic::SyntheticPlan plan;
  plan.name = "small plan";
  plan.seed = 3;
  plan.launches = sample.launches;
  plan.rounds = 24;
  plan.noise = 0.01;
  plan.cells = {sample_cell("varlen", "mask_dense", "varlen", sample.varlen),
                sample_cell("bf16_guard", "always", "if_needed", sample.guard)};
  plan.cells[0].levels[1].gate_passes = sample.parity_passes;
  for (synthetic::SyntheticCell& cell : plan.cells) cell.timed_launches = sample.launches;
  plan.claims = {{.id = "varlen-throughput",
                  .optimization = "varlen",
                  .from = "mask_dense",
                  .to = "varlen",
                  .text = "10-15 % more tokens a second",
                  .source = "seed 3",
                  .metric = "throughput",
                  .lo = 0.10,
                  .hi = 0.15,
                  .conditions = "documents of very different length",
                  .unmet = "",
                  .requires_json = "{}",
                  .stages = "",
                  .source_errors = {}}};
  return synthetic::synthetic_ledger(plan);
}

// Spec, optimizations, claims, cells and variants; no launch yet.
inline LedgerData planned_only() {
  LedgerData data = finished();
  data.launches.clear();
  data.visits.clear();
  data.metrics.clear();
  data.gates.clear();
  data.events.clear();
  return data;
}

} // namespace assay
