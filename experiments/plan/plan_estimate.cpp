// What a plan takes and can see: time from a probe, memory by arithmetic, the minimum detectable
// effect from a stated noise.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/statistics/statistics.h"
#include "experiments/analysis/report.h"
#include "experiments/evidence/plan_state.h"
#include "experiments/plan/plan.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

constexpr double kWorkerStartSeconds = 1.2; // loading LibTorch
constexpr int kWarmupRounds = 12;           // between the least (10) and the cap (15)

TrainConfig config_of(const std::string& text) {
  return value_or_throw(config_from_json(nlohmann::json::parse(text)));
}

// Of one optimizer step. A probe times the cell's unit; where that is an evaluation, a step takes
// about three forward passes of as many batches.
double step_seconds(const CellRow& cell, const ProbeResult& probe) {
  if (cell.unit != "evaluation") return probe.unit_ns * 1e-9;
  const TrainConfig config = config_of(cell.config_json);
  const auto batches = static_cast<double>(std::max<std::int64_t>(1, config.eval_batches));
  return probe.unit_ns * 1e-9 * 3 * static_cast<double>(config.accumulate) / batches;
}

// Without the control, without warm-up.
double loss_seconds(const CellEstimate& e, const CellRow& cell, const ProbeResult& probe) {
  const double variants = static_cast<double>(e.variants) - 1;
  return e.loss_seeds *
         (kWorkerStartSeconds +
          variants * (probe.build_seconds + e.loss_steps * step_seconds(cell, probe)));
}

// Parity and memory launches run each variant a few times; a timed launch warms up and runs.
double cell_seconds(const CellEstimate& e, const CellRow& cell, const ProbeResult& probe) {
  const double visit = probe.unit_ns * 1e-9 * cell.visit_steps;
  const double variants = static_cast<double>(e.variants);
  const double timed = kWorkerStartSeconds +
                       variants * (probe.build_seconds + (kWarmupRounds + cell.rounds) * visit);
  const double checks = 2 * kWorkerStartSeconds + variants * (2 * probe.build_seconds + 12 * visit);
  const double traced =
      cell.traced_rounds == 0
          ? 0
          : kWorkerStartSeconds + (variants - 1) * (probe.build_seconds +
                                                    (kWarmupRounds + cell.traced_rounds) * visit);
  return e.launches * timed + checks + traced + loss_seconds(e, cell, probe);
}

} // namespace

PlanEstimate estimate(const Plan& plan, const std::map<std::int64_t, ProbeResult>& probes) {
  PlanEstimate result;
  result.judgements = count_judgements(plan.ledger);
  result.judged_alpha = plan.ledger.spec.alpha / result.judgements;
  double seconds = 0;
  for (const CellRow& cell : plan.ledger.cells) {
    CellEstimate e;
    e.cell = cell.id;
    e.launches = plan.ledger.planned_launches(cell);
    e.rounds = cell.rounds;
    e.loss_seeds = cell.loss_seeds;
    e.loss_steps = cell.loss_rounds * cell.loss_steps;
    std::int64_t activations = 0;
    for (const VariantRow* variant : variants_of(plan.ledger, cell.id)) {
      const ModelSize size = model_size(config_of(variant->config_json));
      ++e.variants;
      e.memory_bytes += size.state_bytes;
      activations = std::max(activations, size.activation_bytes);
    }
    e.memory_bytes += activations;
    const bool gpu = config_of(cell.config_json).device == Device::Cuda;
    const auto probe = probes.find(cell.id);
    const bool measured = probe != probes.end() && probe->second.pair_sd.has_value();
    const double pair_sd = measured ? *probe->second.pair_sd : gpu ? kPairSdGpu : kPairSdCpu;
    result.pair_sd_measured = result.pair_sd_measured && measured;
    result.pair_sd = std::max(result.pair_sd, pair_sd);
    if (e.launches >= 2) {
      // Standard error of a median of normal values: sqrt(pi / 2) sd / sqrt(n).
      const double error = std::sqrt(std::numbers::pi / 2 / cell.rounds) * pair_sd;
      const LaunchSpread spread{error * error, error * error, 0};
      e.mde = minimum_detectable_effect(
          spread, e.launches, result.judged_alpha, plan.ledger.spec.power);
    }
    if (probe != probes.end()) {
      e.seconds = cell_seconds(e, cell, probe->second);
      seconds += *e.seconds;
    }
    result.cells.push_back(e);
  }
  if (probes.size() == plan.ledger.cells.size()) result.seconds = seconds;
  return result;
}

} // namespace assay
