#include "experiments/analysis/rank_times.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "core/statistics/statistics.h"
#include "core/text.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/attribution/tiling.h"

namespace assay {

namespace {

constexpr double kAlike = 1.01; // ratio of step times up to which ranks are equally fast

using ByTime = double (*)(const RankTime&);

double own_clock(const RankTime& time) {
  return time.step_ns;
}

double exposed(const RankTime& time) {
  return time.traced->exposed_ns;
}

bool all_traced(const RankTimes& times) {
  return std::all_of(
      times.begin(), times.end(), [](const RankTime& time) { return time.traced.has_value(); });
}

// Ranks with the least and the greatest time.
std::pair<std::size_t, std::size_t> extremes(const RankTimes& times, ByTime value) {
  const auto [least, most] =
      std::minmax_element(times.begin(), times.end(), [&](const auto& x, const auto& y) {
        return value(x) < value(y);
      });
  return {static_cast<std::size_t>(least - times.begin()),
          static_cast<std::size_t>(most - times.begin())};
}

std::string wait_text(const RankTime& time, std::size_t rank) {
  const double step = time.traced->step_ns, wait = time.traced->exposed_ns;
  return fmt::format("{} ({}) on rank {}",
                     human_seconds(wait * 1e-9),
                     share_text(step > 0 ? wait / step : 0),
                     rank);
}

// Whether x waits less than y in more than chance: the ranks run the same rounds.
bool clearly_less(const TracedWait& x, const TracedWait& y) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(x.by_round.size(), y.by_round.size()); ++i)
    differences.push_back(y.by_round[i] - x.by_round[i]);
  const auto interval = t_interval(differences, kShownAlpha);
  return interval && interval->lower > 0;
}

std::string waits_text(const std::string& variant, const RankTimes& times) {
  const auto [least, most] = extremes(times, exposed);
  if (exposed(times[least]) == exposed(times[most]))
    return fmt::format(
        "{} {} as on every rank", printable(variant), wait_text(times[least], least));
  const bool clear = clearly_less(*times[least].traced, *times[most].traced);
  return fmt::format("{} {}{} to {}",
                     printable(variant),
                     wait_text(times[least], least),
                     clear ? ", which the others wait for," : "",
                     wait_text(times[most], most));
}

// Ranks leave every collective together, so clocks that agree name no slowest one.
std::string clock_text(const std::string& variant, const RankTimes& times) {
  const auto [fastest, slowest] = extremes(times, own_clock);
  if (times[slowest].step_ns <= kAlike * times[fastest].step_ns)
    return fmt::format(
        "{} (all alike, {})", printable(variant), human_seconds(times[slowest].step_ns * 1e-9));
  return fmt::format("{} rank {} ({}; rank {}: {})",
                     printable(variant),
                     slowest,
                     human_seconds(times[slowest].step_ns * 1e-9),
                     fastest,
                     human_seconds(times[fastest].step_ns * 1e-9));
}

std::string untraced(const RankTimes& times) {
  std::string text;
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    if (!times[rank].traced) text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

} // namespace

RankTimes rank_times(const CellView& cell, const VariantRow& variant) {
  std::map<std::string, std::vector<double>> told; // by path, one per launch
  for (const LaunchRow* launch : cell.counted)
    for (const MetricRow* metric : cell.metrics(launch->id))
      if (metric->variant == variant.id) told[metric->path].push_back(metric->value);
  RankTimes times;
  for (;;) {
    const auto found = told.find(fmt::format("rank/{}/step_ns", times.size()));
    if (found == told.end()) break;
    RankTime time;
    time.step_ns = median(found->second);
    times.push_back(time);
  }
  if (times.size() < 2) times.clear();
  return times;
}

std::optional<TracedWait> traced_wait(const Trace& trace) {
  if (std::any_of(
          trace.audit.begin(), trace.audit.end(), [](const AuditRow& row) { return !row.passed; }))
    return std::nullopt;
  TracedWait wait;
  std::vector<double> steps;                     // wall, ns
  std::map<int, std::vector<double>> exposed_in; // by round
  for (const StepTiling& tiling : tile_steps(trace)) {
    if (!tiling.step.counted) continue;
    steps.push_back(static_cast<double>(tiling.wall_ns()));
    exposed_in[tiling.step.round].push_back(
        static_cast<double>(tiling.stage_ns[static_cast<std::size_t>(Stage::ExposedComm)]));
  }
  if (steps.empty()) return std::nullopt;
  for (const auto& [round, exposed_ns] : exposed_in) wait.by_round.push_back(mean(exposed_ns));
  wait.step_ns = mean(steps);
  wait.exposed_ns = mean(wait.by_round);
  return wait;
}

std::string ranks_text(const Comparison& comparison) {
  const RankTimes &a = comparison.a_ranks, &b = comparison.b_ranks;
  if (a.empty() || b.empty()) return "";
  if (all_traced(a) && all_traced(b))
    return fmt::format("exposed communication per step: {}; {}",
                       waits_text(comparison.a, a),
                       waits_text(comparison.b, b));
  std::string text = fmt::format("slowest rank by its own clock: {}; {}",
                                 clock_text(comparison.a, a),
                                 clock_text(comparison.b, b));
  if (comparison.explanation)
    text += fmt::format("; exposed communication is unknown: no usable trace of rank {}",
                        all_traced(a) ? untraced(b) : untraced(a));
  return text;
}

std::string collectives_text(const Comparison& comparison) {
  if (!comparison.explanation) return "";
  std::map<std::string, std::pair<double, double>> calls; // a kernel may run in several stages
  for (const DiffRow& row : comparison.explanation->kernels)
    if (row.kernel_class == "nccl") {
      std::string_view name = row.short_name;
      for (const std::string_view prefix : {"ncclDevKernel_", "ncclKernel_"})
        if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
      calls[std::string(name)].first += row.calls_a;
      calls[std::string(name)].second += row.calls_b;
    }
  if (calls.empty()) return "";
  const auto side = [&](const std::string& variant, double std::pair<double, double>::*of) {
    std::vector<std::string> ran;
    for (const auto& [name, count] : calls)
      if (count.*of > 0) ran.push_back(fmt::format("{:.4g} x {}", count.*of, printable(name)));
    return fmt::format("{} {}",
                       printable(variant),
                       ran.empty() ? "none" : fmt::format("{}", fmt::join(ran, ", ")));
  };
  return fmt::format("collectives a step, by their kernels: {}; {}",
                     side(comparison.a, &std::pair<double, double>::first),
                     side(comparison.b, &std::pair<double, double>::second));
}

} // namespace assay
