#include <algorithm>
#include <cmath>

#include "experiments/attribution/attribution.h"
#include "experiments/attribution/tiling.h"
#include "experiments/attribution/trace_diff.h"
#include "experiments/attribution/trace_pairs.h"

namespace assay {

namespace {

TraceHealth health_of(const Trace& trace, const TiledTrace& tiled, double timed_ns) {
  TraceHealth health;
  health.path = trace.path;
  for (const AuditRow& row : trace.audit)
    if (!row.passed) health.failed.push_back(row);
  health.passed = health.failed.empty();
  std::vector<double> walls;
  for (const StepTiling& tiling : tiled.steps)
    if (tiling.step.counted) walls.push_back(static_cast<double>(tiling.wall_ns()));
  health.steps = walls.size();
  if (!walls.empty() && timed_ns > 0)
    health.traced_over_timed = median(std::move(walls)) / timed_ns;
  return health;
}

// A stage's times by round: the mean over the round's steps.
std::vector<double> stage_by_round(const TiledTrace& tiled,
                                   const std::vector<TracePairs::Place>& places,
                                   std::size_t rounds,
                                   std::size_t stage) {
  std::vector<double> result(rounds);
  for (std::size_t i = 0; i < tiled.steps.size(); ++i)
    if (places[i].round >= 0)
      result[static_cast<std::size_t>(places[i].round)] +=
          places[i].weight * static_cast<double>(tiled.steps[i].stage_ns[stage]);
  return result;
}

void add_stages(Waterfall& waterfall,
                const TiledTrace& a,
                const TiledTrace& b,
                const TracePairs& pairs) {
  const std::size_t rounds = pairs.rounds.size();
  std::vector<double> total(rounds);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const std::vector<double> of_a = stage_by_round(a, pairs.places_a, rounds, stage);
    const std::vector<double> of_b = stage_by_round(b, pairs.places_b, rounds, stage);
    std::vector<double> deltas(rounds);
    for (std::size_t r = 0; r < rounds; ++r) total[r] += deltas[r] = of_b[r] - of_a[r];
    StageDelta row;
    row.stage = static_cast<Stage>(stage);
    row.a_ns = mean(of_a);
    row.b_ns = mean(of_b);
    if (row.a_ns == 0 && row.b_ns == 0) continue;
    row.delta_ns = mean(deltas);
    row.interval = t_interval(deltas, kShownAlpha);
    row.clear = row.interval && !row.interval->contains(0);
    waterfall.a_ns += row.a_ns;
    waterfall.b_ns += row.b_ns;
    waterfall.stages.push_back(row);
  }
  waterfall.traced_interval = t_interval(total, kShownAlpha);
}

// residual = timed difference - sum of the stages' differences, as a share of the baseline's timed
// unit.
void close(Waterfall& waterfall, const TimedDifference& timed) {
  waterfall.timed_a_ns = timed.a_ns;
  waterfall.timed_delta_ns = timed.delta_ns;
  waterfall.timed_interval = timed.interval;
  if (waterfall.pairs == 0 || timed.a_ns <= 0) return;
  waterfall.residual_ns = timed.delta_ns - waterfall.traced_delta_ns();
  waterfall.residual_share = waterfall.residual_ns / timed.a_ns;
  waterfall.allowed_share = kClosureShare;
  if (timed.interval)
    waterfall.allowed_share = std::max(kClosureShare, timed.interval->half_width() / timed.a_ns);
  waterfall.closed = std::abs(waterfall.residual_share) <= waterfall.allowed_share;
}

std::string failed_audit(const std::string& variant, const TraceHealth& health) {
  std::string text;
  for (const AuditRow& row : health.failed)
    text += fmt::format("{}{} {:.6g} (limit {:.6g}){}",
                        text.empty() ? "" : "; ",
                        row.check,
                        row.value,
                        row.limit,
                        row.detail.empty() ? "" : ": " + row.detail);
  return fmt::format("the trace of '{}' failed its audit: {}", variant, text);
}

std::string why_unusable(const Explanation& result, const Trace& a, const Trace& b) {
  const Waterfall& waterfall = result.waterfall;
  if (a.on_gpu() != b.on_gpu()) return "one trace is of a GPU launch, the other is not";
  for (const auto& [trace, name] : {std::pair(&a, &result.a), std::pair(&b, &result.b)})
    if (trace->on_gpu() && trace->device.empty())
      return fmt::format("the trace of '{}' ran on a GPU but contains no device event", *name);
  if (!waterfall.a.passed) return failed_audit(result.a, waterfall.a);
  if (!waterfall.b.passed) return failed_audit(result.b, waterfall.b);
  if (waterfall.pairs == 0)
    return fmt::format(
        "no counted step of '{}' has a partner of the same round and position in '{}'",
        result.a,
        result.b);
  return "";
}

// Figures stay, for whoever wants to look; nothing is called a finding.
void downgrade(Explanation& explanation) {
  for (StageDelta& stage : explanation.waterfall.stages) stage.clear = false;
  for (std::vector<DiffRow>* rows : {&explanation.kernels, &explanation.operators})
    for (DiffRow& row : *rows) row.status = DiffStatus::Unclear;
  explanation.waterfall.closed = false;
}

} // namespace

std::string_view to_string(Stage stage) {
  return kStageNames[static_cast<std::size_t>(stage)];
}

std::optional<Stage> stage_from(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', ' ');
  for (std::size_t i = 0; i < kStages; ++i)
    if (kStageNames[i] == words) return static_cast<Stage>(i);
  return std::nullopt;
}

std::string_view to_string(DiffStatus status) {
  constexpr std::string_view kNames[] = {"added", "removed", "faster", "slower", "same", "unclear"};
  return kNames[static_cast<std::size_t>(status)];
}

double Waterfall::traced_delta_ns() const {
  double sum = 0;
  for (const StageDelta& stage : stages) sum += stage.delta_ns;
  return sum;
}

Explanation explain(const Trace& a, const Trace& b, const std::optional<TimedDifference>& timed) {
  Explanation result;
  result.cell = a.value("cell");
  result.a = a.value("variant");
  result.b = b.value("variant");
  result.traced_as = a.on_gpu() ? "device" : "host";
  const TiledTrace tiled_a = tile_trace(a), tiled_b = tile_trace(b);
  const TracePairs pairs = pair_steps(a.steps, b.steps);
  Waterfall& waterfall = result.waterfall;
  waterfall.pairs = pairs.pairs;
  waterfall.a = health_of(a, tiled_a, timed ? timed->a_ns : 0);
  waterfall.b = health_of(b, tiled_b, timed ? timed->a_ns + timed->delta_ns : 0);
  if (pairs.pairs > 0) {
    add_stages(waterfall, tiled_a, tiled_b, pairs);
    result.kernels = diff_device(a, tiled_a, b, tiled_b, pairs, waterfall.a_ns);
    result.operators = diff_operators(a, b, pairs, waterfall.a_ns);
  }
  if (timed) close(waterfall, *timed);
  waterfall.unusable = why_unusable(result, a, b);
  if (!waterfall.unusable.empty()) downgrade(result);
  return result;
}

std::optional<double> gain_share(const Waterfall& waterfall, const std::vector<Stage>& stages) {
  const double total = waterfall.traced_delta_ns();
  if (!(total < 0)) return std::nullopt;
  double named = 0;
  for (const StageDelta& row : waterfall.stages)
    if (std::find(stages.begin(), stages.end(), row.stage) != stages.end()) named += row.delta_ns;
  const double timed = waterfall.timed_delta_ns;
  return timed < 0 ? std::min(named / total, named / timed) : named / total;
}

} // namespace assay
