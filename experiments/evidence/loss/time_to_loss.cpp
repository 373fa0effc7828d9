#include "experiments/evidence/loss/time_to_loss.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "core/statistics/welch.h"
#include "experiments/evidence/loss/loss.h"

namespace assay {

namespace {

constexpr double kReportedAlpha = 0.05;

// By seed; of a variant whose training broke off, what it had: it did not reach a later loss.
std::map<std::uint64_t, std::vector<double>> curves_of(const CellView& cell,
                                                       const std::string& variant) {
  std::map<std::uint64_t, std::vector<double>> by_seed;
  for (LossCurve& curve : loss_curves(cell))
    if (curve.variant == variant) by_seed[curve.seed] = std::move(curve.loss);
  return by_seed;
}

double mean_of_exp(const std::vector<double>& logs) {
  double sum = 0;
  for (const double value : logs) sum += std::exp(value);
  return sum / static_cast<double>(logs.size());
}

void add_time(TimeToLoss& result, const Effect& step, double judged_alpha) {
  const std::vector<double>& step_times = step.theta.by_launch;
  const auto units = static_cast<double>(std::max<std::int64_t>(result.tokens_per_step, 1));
  result.a_seconds = result.a_steps * units * step.a_ns * 1e-9; // a_ns: of a step, or of a token
  Estimate time;
  time.value = result.steps->value + mean(step_times);
  result.b_seconds = result.a_seconds * std::exp(time.value);
  std::vector<double> negative = result.steps->by_launch; // the sum of two means as a difference
  for (double& value : negative) value = -value;
  if (const auto sum = mean_difference(negative, step_times)) {
    time.judged = sum->interval(judged_alpha);
    time.at_95 = sum->interval(kReportedAlpha);
  }
  result.time = std::move(time);
}

} // namespace

std::optional<StepsToLoss> steps_to_loss(const std::vector<double>& curve,
                                         std::size_t window,
                                         int steps_a_visit,
                                         double target) {
  double before = 0;
  for (std::size_t end = window; window > 0 && end <= curve.size(); ++end) {
    const auto first = curve.begin() + static_cast<std::ptrdiff_t>(end - window);
    const double now = std::accumulate(first, first + static_cast<std::ptrdiff_t>(window), 0.0) /
                       static_cast<double>(window);
    if (now <= target) {
      const bool at_once = end == window;
      const double part = at_once ? 1 : (before - target) / (before - now);
      return StepsToLoss{steps_a_visit * (static_cast<double>(end) - 1 + part), at_once};
    }
    before = now;
  }
  return std::nullopt;
}

std::optional<TimeToLoss> time_to_loss(const CellView& cell,
                                       const VariantRow& a,
                                       const VariantRow& b,
                                       const std::optional<Effect>& effect,
                                       double judged_alpha) {
  if (cell.cell->loss_target <= 0 || cell.cell->loss_seeds == 0) return std::nullopt;
  TimeToLoss result;
  result.target = cell.cell->loss_target;
  const StepCostRow* cost = cell.cost(a.id);
  if (by_token(*cell.cell) && cost != nullptr) result.tokens_per_step = cost->tokens;
  const int visit_steps = loss_visit_steps(*cell.cell, cell.cost(cell.baseline->id), cost);
  const auto of_a = curves_of(cell, a.name), of_b = curves_of(cell, b.name);
  const std::size_t window = final_visits(static_cast<std::size_t>(cell.cell->loss_rounds));
  const auto steps = [&](const std::vector<double>& losses) {
    return steps_to_loss(losses, window, visit_steps, result.target);
  };
  result.first_steps = static_cast<double>(window) * visit_steps;
  std::vector<double> logs_a, ratios;
  for (const auto& [seed, curve] : of_a) {
    const auto other = of_b.find(seed);
    if (other == of_b.end()) continue;
    ++result.seeds;
    const std::optional<StepsToLoss> in_a = steps(curve), in_b = steps(other->second);
    result.a_reached += in_a.has_value();
    result.b_reached += in_b.has_value();
    result.a_at_once += in_a && in_a->at_once;
    result.b_at_once += in_b && in_b->at_once;
    if (!in_a || !in_b) continue;
    logs_a.push_back(std::log(in_a->steps));
    ratios.push_back(std::log(in_b->steps / in_a->steps));
  }
  // A mean over those seeds that reached it would flatter who reached it less often.
  if (result.seeds == 0 || std::ssize(logs_a) < result.seeds) return result;
  if (result.a_at_once + result.b_at_once > 0) return result;
  result.steps = estimate(std::move(ratios), judged_alpha);
  result.a_steps = mean_of_exp(logs_a);
  result.b_steps = result.a_steps * std::exp(result.steps->value);
  const bool step_is_timed =
      cell.cell->unit != "evaluation" && (!by_token(*cell.cell) || result.tokens_per_step > 0);
  if (effect && step_is_timed) add_time(result, *effect, judged_alpha);
  return result;
}

} // namespace assay
