// What a plan takes and can see: time from a probe, memory by arithmetic, the minimum detectable
// effect from a stated noise.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/ledger/stored_config.h"
#include "core/statistics/looks.h"
#include "core/statistics/statistics.h"
#include "experiments/analysis/report.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/loss/loss.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/plan/memory_groups.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/trace_size.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

constexpr double kWorkerStartSeconds = 1.2; // loading LibTorch
constexpr int kWarmupRounds = 12;           // between the least (10) and the cap (15)

TrainConfig config_of(const std::string& text) {
  return value_or_throw(config_from_json(stored_config(text)));
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
double
cell_seconds(const CellEstimate& e, int launches, const CellRow& cell, const ProbeResult& probe) {
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
  const double energy =
      cell.energy_rounds == 0
          ? 0
          : kWorkerStartSeconds +
                variants * (probe.build_seconds +
                            (1 + cell.energy_rounds) * std::max(kEnergySeconds, visit));
  return launches * timed + checks + traced + energy + loss_seconds(e, cell, probe);
}

// Of a launch's value, by one pair's scatter: the variance of a median of normal values.
double variance_of_pairs(double pair_sd, int rounds) {
  return std::numbers::pi / 2 / rounds * pair_sd * pair_sd;
}

// Of a launch's value: s_L^2 of the comparison that scattered most, the control included. The part
// that pairs explain shrinks with their number. Fewer launches than a verdict needs say nothing.
std::optional<double> variance_of_results(const Report* earlier, const CellRow& cell) {
  std::optional<double> widest;
  const auto add = [&](const Comparison& comparison, const CellRow& of) {
    if (!comparison.effect || !comparison.effect->spread ||
        comparison.effect->launches.size() < static_cast<std::size_t>(kProvisionalLaunches))
      return;
    const LaunchSpread& spread = *comparison.effect->spread;
    const double by_pairs = std::min(spread.within_variance, spread.total_variance);
    const double variance =
        spread.between_variance + by_pairs * static_cast<double>(of.rounds) / cell.rounds;
    widest = std::max(widest.value_or(0), variance);
  };
  if (earlier == nullptr) return widest;
  for (const CellReport& found : earlier->cells) {
    if (found.cell.name != cell.name || found.cell.unit != cell.unit ||
        found.cell.config_json != cell.config_json)
      continue;
    for (const Comparison& comparison : found.comparisons) add(comparison, found.cell);
    if (found.control) add(found.control->comparison, found.cell);
  }
  return widest;
}

double process_sd(const CellRow& cell, bool gpu) {
  if (cell.apart) return gpu ? kApartSdGpu : kApartSdCpu;
  return !cell.turns ? 0 : gpu ? kTurnsSdGpu : kTurnsSdCpu;
}

// The variance of a launch's value that the cell's MDE assumes, and where it is from.
double expected_variance(const CellRow& cell,
                         const ProbeResult* probe,
                         const Report* earlier,
                         PlanEstimate& plan,
                         CellEstimate& e) {
  if (const auto variance = variance_of_results(earlier, cell)) {
    e.mde_from_results = true;
    return *variance;
  }
  const bool gpu = config_of(cell.config_json).device == Device::Cuda;
  const bool measured = probe != nullptr && probe->pair_sd.has_value();
  const double pair_sd = measured ? *probe->pair_sd : gpu ? kPairSdGpu : kPairSdCpu;
  e.pair_sd = pair_sd;
  e.pair_sd_measured = measured;
  plan.pair_sd_measured = plan.pair_sd_measured && measured;
  plan.pair_sd = std::max(plan.pair_sd, pair_sd);
  e.process_sd = process_sd(cell, gpu);
  return variance_of_pairs(pair_sd, cell.rounds) + e.process_sd * e.process_sd;
}

// Of the medians of two pairs' log ratios, where visits scatter alike, normally and independently:
// those with one variant in common correlate by (2 / pi) asin(1 / 2).
double correlation(const ContrastTerm& x, const ContrastTerm& y) {
  const int shared = (x.from == y.from) + (x.to == y.to) - (x.from == y.to) - (x.to == y.from);
  return std::abs(shared) == 2 ? shared / 2.0 : shared / 3.0;
}

std::vector<double> contrast_mde_factors(const LedgerData& plan, const CellRow& cell) {
  std::vector<double> factors;
  for (const ContrastRow& contrast : optimization_of(plan, cell)->contrasts) {
    double variance = 0;
    for (const ContrastTerm& x : contrast.terms)
      for (const ContrastTerm& y : contrast.terms)
        variance += x.weight * y.weight * correlation(x, y);
    factors.push_back(std::sqrt(variance));
  }
  return factors;
}

// A probe measures the baseline; by arithmetic the other variants' states and activations need so
// many times as much. All that live at once count, and the step of one.
void add_memory(const LedgerData& ledger,
                const CellRow& cell,
                const ProbeResult* probe,
                CellEstimate& e) {
  e.memory_measured = probe != nullptr && probe->replica_bytes > 0 && probe->step_bytes > 0;
  double state_ratio = 1, gradient_ratio = 1, activation_ratio = 1, states = 0, step = 0;
  for (const VariantRow* variant : variants_of(ledger, cell.id)) {
    const TrainConfig config = config_of(variant->config_json);
    if (e.memory_measured && e.variants == 0) {
      const ModelSize one = model_size(config); // of one rank, as the probe tells it
      state_ratio =
          static_cast<double>(probe->replica_bytes) / static_cast<double>(one.state_bytes);
      const double gradients = static_cast<double>(one.gradient_bytes),
                   above = static_cast<double>(probe->step_bytes);
      gradient_ratio = std::min(1.0, above / gradients);
      activation_ratio =
          std::max(0.0, above - gradients) / static_cast<double>(one.activation_bytes);
    }
    ModelSize size = size_in_memory(config);
    size.gradient_bytes = std::llround(gradient_ratio * static_cast<double>(size.gradient_bytes));
    size.activation_bytes =
        std::llround(activation_ratio * static_cast<double>(size.activation_bytes));
    ++e.variants;
    const double state = state_ratio * static_cast<double>(size.state_bytes);
    states = cell.apart ? std::max(states, state) : states + state;
    step = std::max(step, static_cast<double>(size.step_bytes()));
  }
  e.memory_bytes = std::llround(states + step);
}

} // namespace

PlanEstimate estimate(const Plan& plan,
                      const std::map<std::int64_t, ProbeResult>& probes,
                      const Report* earlier) {
  PlanEstimate result;
  result.judgements = count_judgements(plan.ledger);
  result.judged_alpha = plan.ledger.spec.alpha / result.judgements;
  double seconds = 0, least = 0;
  std::map<std::pair<int, double>, double> unit_mde; // by launches and level, of a variance of 1
  for (const CellRow& cell : plan.ledger.cells) {
    CellEstimate e;
    e.cell = cell.id;
    e.least_launches = plan.ledger.planned_launches(cell);
    e.launches = cell.looks.empty() ? e.least_launches : cell.looks.back();
    e.rounds = cell.rounds;
    e.loss_seeds = cell.loss_seeds;
    e.loss_steps = loss_training_steps(cell);
    e.contrast_mde_factors = contrast_mde_factors(plan.ledger, cell);
    const auto probe = probes.find(cell.id);
    add_memory(plan.ledger, cell, probe == probes.end() ? nullptr : &probe->second, e);
    e.trace_bytes = estimated_trace_bytes(plan.ledger, cell);
    result.trace_bytes += e.trace_bytes;
    const double variance = expected_variance(
        cell, probe == probes.end() ? nullptr : &probe->second, earlier, result, e);
    if (e.launches >= kFullLaunches) {
      // The last look sees the least effect.
      const double alpha = cell.looks.empty() ? result.judged_alpha
                                              : look_levels(result.judged_alpha, cell.looks).back();
      const auto [known, added] = unit_mde.try_emplace({e.launches, alpha});
      if (added)
        known->second = minimum_detectable_effect(1, e.launches, alpha, plan.ledger.spec.power);
      e.mde = known->second * std::sqrt(variance);
    }
    if (probe != probes.end()) {
      e.seconds = cell_seconds(e, e.launches, cell, probe->second);
      e.least_seconds = cell_seconds(e, e.least_launches, cell, probe->second);
      seconds += *e.seconds;
      least += *e.least_seconds;
    }
    result.cells.push_back(e);
  }
  if (probes.size() == plan.ledger.cells.size()) {
    result.seconds = seconds;
    result.least_seconds = least;
  }
  return result;
}

} // namespace assay
