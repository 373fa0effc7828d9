#include "experiments/analysis/estimate_roofline.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/config/step_cost.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

using nlohmann::json;

// What a trace says of one side of a comparison, a step.
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

// Of the cell's newest complete parity launch. Nothing unless all that a step needs are there.
std::optional<MeasuredPeaks> peaks_of(const LedgerData& data, const CellRow& cell, bool fp8) {
  const LaunchRow* launch = data.latest_launch(cell.id, LaunchKind::Parity, LaunchState::Complete);
  if (launch == nullptr) return std::nullopt;
  const auto value = [&](const char* path) {
    for (const MetricRow& metric : data.metrics)
      if (metric.launch == launch->id && metric.path == path) return metric.value;
    return 0.0;
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

std::optional<TrainConfig> config_of(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return std::nullopt;
  const Result<TrainConfig> config = config_from_json(parsed);
  if (!config) return std::nullopt;
  const Result<TrainConfig> resolved = resolve(*config);
  return resolved ? std::optional(*resolved) : std::nullopt;
}

void add_bound(VariantSpeed& speed, const std::vector<OpCost>& ops, const TrainConfig& config) {
  if (!speed.peaks) {
    speed.unknown = config.device == Device::Cuda
                        ? "this run did not measure the peaks of the device"
                        : "peaks are measured on GPUs only";
    return;
  }
  speed.light = speed_of_light(ops, *speed.peaks, speed.launches.value_or(0));
  if (speed.launches)
    speed.bound = bottleneck_of(*speed.light, MeasuredStep{speed.step_seconds, speed.busy_seconds});
  else
    speed.unknown = "kernel launches of this model family are counted in a trace only";
}

// `step_seconds` > 0.
std::optional<VariantSpeed> speed_of(const LedgerData& data,
                                     const CellRow& cell,
                                     const std::string& config_json,
                                     double step_seconds,
                                     const std::optional<Traced>& traced) {
  const std::optional<TrainConfig> config = config_of(config_json);
  if (!config) return std::nullopt;
  const StepShape shape = step_shape(*config);
  const std::vector<OpCost> ops = step_cost(shape);
  VariantSpeed speed;
  speed.step_seconds = step_seconds;
  speed.tokens_per_second =
      static_cast<double>(shape.tokens * shape.micro_batches * config->ranks) / step_seconds;
  speed.flops = total_flops(ops);
  speed.launches_traced = traced.has_value();
  if (traced) {
    speed.launches = traced->launches;
    speed.busy_seconds = std::min(traced->busy_seconds, step_seconds);
  } else if (config->device == Device::Cuda && counts_all_launches(shape)) {
    speed.launches = total_launches(ops);
  }
  speed.peaks = peaks_of(data, cell, config->precision == Precision::Fp8);
  add_bound(speed, ops, *config);
  return speed;
}

// The reference, then every level, each once; from the first comparison that measured it.
void add_variants(CellReport& cell, const LedgerData& data) {
  for (const bool a : {true, false})
    for (const Comparison& comparison : cell.comparisons) {
      const std::string& name = a ? comparison.a : comparison.b;
      const bool known = std::any_of(cell.speed.begin(), cell.speed.end(), [&](const auto& speed) {
        return speed.variant == name;
      });
      if (known || !comparison.effect || !comparison.against_reference) continue;
      const double ns = a ? comparison.effect->a_ns : comparison.effect->b_ns;
      const std::int64_t id = a ? comparison.a_id : comparison.b_id;
      if (!(ns > 0)) continue;
      auto speed = speed_of(
          data, cell.cell, data.variant(id).config_json, ns * 1e-9, traced_side(comparison, a));
      if (!speed) continue;
      speed->variant = name;
      cell.speed.push_back(std::move(*speed));
    }
}

void add_step_beside(CellReport& cell, const LedgerData& data) {
  for (const Comparison& comparison : cell.comparisons) {
    if (!comparison.end_to_end) continue;
    auto speed = speed_of(data,
                          cell.cell,
                          cell.cell.config_json,
                          comparison.end_to_end->step_ns * 1e-9,
                          std::nullopt);
    if (speed) cell.speed.push_back(std::move(*speed));
    return;
  }
}

} // namespace

void estimate_roofline(Report& report, const LedgerData& data) {
  for (CellReport& cell : report.cells) {
    cell.speed.clear();
    if (cell.cell.unit == "train_step")
      add_variants(cell, data);
    else
      add_step_beside(cell, data);
  }
}

} // namespace assay
