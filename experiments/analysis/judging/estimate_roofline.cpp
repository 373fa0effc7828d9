#include "experiments/analysis/judging/estimate_roofline.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "core/ledger/stored_config.h"
#include "model/config/cost/step_cost.h"
#include "model/config/key_variants.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

using nlohmann::json;

// Figures of one side of a comparison from its trace, per step.
struct Traced {
  std::int64_t launches = 0;
  double busy_seconds = 0;
};

std::optional<Traced> traced_side(const Comparison& comparison, bool a) {
  const std::optional<Explanation>& explanation = comparison.explanation;
  if (!explanation || explanation->traced_as != "device" || explanation->kernels.empty() ||
      !explanation->waterfall.unusable.empty())
    return std::nullopt;
  double calls = 0, busy_ns = a ? explanation->waterfall.a_ns : explanation->waterfall.b_ns;
  for (const DiffRow& row : explanation->kernels) calls += a ? row.calls_a : row.calls_b;
  for (const StageDelta& stage : explanation->waterfall.stages)
    if (stage.stage == Stage::HostGap || stage.stage == Stage::Idle)
      busy_ns -= a ? stage.a_ns : stage.b_ns;
  return Traced{std::llround(calls), busy_ns * 1e-9};
}

// Whether all variants multiply in one type of number: FP8's other products are in bf16.
bool one_compute_type(const CellView& cell) {
  std::set<std::pair<std::string, bool>> types;
  for (const VariantRow* variant : cell.variants) {
    const json config = stored_config(variant->config_json);
    const std::string precision = config.value("precision", "");
    types.emplace(precision == "fp8" ? "bf16" : precision, config.value("tf32", false));
  }
  return types.size() <= 1;
}

// Of the cell's newest complete parity launch. Nothing unless all that a step needs are there.
// Older ledgers have those of the reference for all variants.
std::optional<MeasuredPeaks> peaks_of(const CellView& cell, std::int64_t variant, bool fp8) {
  const LaunchRow* launch = cell.latest(LaunchKind::Parity, LaunchState::Complete);
  if (launch == nullptr) return std::nullopt;
  const bool of_all = one_compute_type(cell);
  const auto value = [&](const char* path) {
    double shared = 0;
    for (const MetricRow* metric : cell.metrics(launch->id)) {
      if (metric->path != path) continue;
      if (metric->variant == variant) return metric->value;
      if (metric->variant == 0 && of_all && shared == 0) shared = metric->value;
    }
    return shared;
  };
  const MeasuredPeaks peaks{value(kComputePeakMetric),
                            value(kFp32PeakMetric),
                            value(kFp8PeakMetric),
                            value(kBandwidthMetric),
                            value(kLaunchMetric)};
  const bool complete = peaks.flops_per_second > 0 && peaks.fp32_flops_per_second > 0 &&
                        peaks.bytes_per_second > 0 && peaks.launch_seconds > 0 &&
                        (!fp8 || peaks.fp8_flops_per_second > 0);
  return complete ? std::optional(peaks) : std::nullopt;
}

// By today's arithmetic, for ledgers that hold no costs. The error is that of a configuration which
// this build cannot read.
Result<StepCostRow> computed_cost(const VariantRow& variant) {
  const Result<TrainConfig> resolved = resolve_json(stored_config(variant.config_json));
  if (!resolved)
    return fail("this build cannot read the stored configuration, the one that measured it can: {}",
                resolved.error().message);
  const StepShape shape = step_shape(*resolved);
  return StepCostRow{
      variant.id, step_tokens(*resolved), counts_all_launches(shape), step_cost(shape)};
}

bool on_gpu(const CellView& cell) {
  const auto found = cell.config->find("device");
  return found != cell.config->end() && *found == "cuda";
}

void add_bound(VariantSpeed& speed, const std::vector<OpCost>& ops, bool cuda) {
  if (!speed.peaks) {
    speed.unknown = cuda ? "this run did not measure the peaks of the device"
                         : "peaks are measured on GPUs only";
    return;
  }
  speed.roofline = roofline(ops, *speed.peaks, speed.kernels.value_or(0));
  if (!speed.kernels) {
    speed.unknown = "the kernel launches are counted in a trace only";
    return;
  }
  speed.bound =
      bottleneck_of(*speed.roofline, MeasuredStep{speed.step_seconds, speed.busy_seconds});
  if (!speed.bound)
    speed.unknown = "the step takes more than twice its time at the peaks; a trace shows why";
}

// Tokens that a timed step of the counted launches had, out of `positions`.
double tokens_a_step(const CellView& cell, const VariantRow& variant, std::int64_t positions) {
  double tokens = 0, steps = 0;
  if (const json config = stored_config(variant.config_json);
      config.value("packing", "packed") != "packed")
    for (const LaunchRow* launch : cell.counted)
      for (const VisitRow* visit : cell.visits(launch->id, variant.id)) {
        if (visit->warmup) continue;
        tokens += static_cast<double>(visit->tokens);
        steps += visit->steps;
      }
  return steps > 0 ? tokens / steps : static_cast<double>(positions);
}

// `seconds` of a step, or of a token where the cell is about those; > 0.
Result<VariantSpeed> speed_of(const CellView& cell,
                              const VariantRow& variant,
                              double seconds,
                              const std::optional<Traced>& traced) {
  const StepCostRow* stored = cell.cost(variant.id);
  const Result<StepCostRow> cost = stored ? Result(*stored) : computed_cost(variant);
  if (!cost) return cost.error();
  const double tokens = tokens_a_step(cell, variant, cost->tokens);
  const double step_seconds = by_token(*cell.cell) ? seconds * tokens : seconds;
  const bool cuda = on_gpu(cell);
  VariantSpeed speed;
  speed.step_seconds = step_seconds;
  speed.tokens_per_second = tokens / step_seconds;
  speed.padding_share = 1 - tokens / static_cast<double>(cost->tokens);
  speed.flops = total_flops(cost->operations);
  speed.kernels_traced = traced.has_value();
  if (traced) {
    speed.kernels = traced->launches;
    speed.busy_seconds = std::min(traced->busy_seconds, step_seconds);
  } else if (cuda && cost->all_kernel_launches) {
    speed.kernels = total_kernels(cost->operations);
  }
  const bool fp8 = std::any_of(cost->operations.begin(),
                               cost->operations.end(),
                               [](const OpCost& op) { return op.peak == Peak::Fp8; });
  speed.peaks = peaks_of(cell, variant.id, fp8);
  add_bound(speed, cost->operations, cuda);
  return speed;
}

void add_speed(CellReport& cell, Result<VariantSpeed> speed, const std::string& variant) {
  if (!speed) {
    cell.no_speed = speed.error().message;
    return;
  }
  speed->variant = variant;
  cell.speed.push_back(std::move(*speed));
}

// The reference, then every level, each once; from the first comparison that measured it, those
// against the reference first.
void add_variants(CellReport& cell, const CellView& view, bool against_reference) {
  for (const bool a : {true, false})
    for (const Comparison& comparison : cell.comparisons) {
      const std::string& name = a ? comparison.a : comparison.b;
      const bool known = std::any_of(cell.speed.begin(), cell.speed.end(), [&](const auto& speed) {
        return speed.variant == name;
      });
      if (known || !comparison.effect || comparison.against_reference != against_reference)
        continue;
      const double ns = a ? comparison.effect->a_ns : comparison.effect->b_ns;
      const std::int64_t id = a ? comparison.a_id : comparison.b_id;
      if (!(ns > 0)) continue;
      const auto variant = std::find_if(view.variants.begin(),
                                        view.variants.end(),
                                        [&](const VariantRow* row) { return row->id == id; });
      add_speed(cell, speed_of(view, **variant, ns * 1e-9, traced_side(comparison, a)), name);
    }
}

void add_step_beside(CellReport& cell, const CellView& view) {
  for (const Comparison& comparison : cell.comparisons) {
    if (!comparison.end_to_end) continue;
    const double seconds = comparison.end_to_end->step_ns * 1e-9;
    add_speed(cell, speed_of(view, *view.baseline, seconds, std::nullopt), "");
    return;
  }
}

} // namespace

void estimate_roofline(CellReport& report, const CellView& cell) {
  report.speed.clear();
  report.no_speed.clear();
  if (report.cell.unit == "evaluation")
    add_step_beside(report, cell);
  else
    for (const bool against_reference : {true, false})
      add_variants(report, cell, against_reference);
}

} // namespace assay
