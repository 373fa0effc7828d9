#include "experiments/report/effect_json.h"

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/loss_json.h"

namespace assay {

using nlohmann::ordered_json;

ordered_json number_json(double value) {
  return value;
}

ordered_json text_json(const std::string& value) {
  return printable(value);
}

ordered_json interval_json(const Interval& value) {
  return ordered_json::array({number_json(value.lower), number_json(value.upper)});
}

namespace {

ordered_json launch_effect(const LaunchEffect& value) {
  return {{"launch_id", value.launch},
          {"launch_index", value.index},
          {"pairs", value.pairs},
          {"log_ratio", number_json(value.theta)},
          {"interval_95", or_null(value.interval, interval_json)},
          {"standard_error", or_null(value.error, number_json)},
          {"hodges_lehmann", number_json(value.hodges_lehmann)},
          {"sum_log_ratio", number_json(value.sum_ratio)}};
}

ordered_json spread(const LaunchSpread& value) {
  return {{"total_variance", value.total_variance},
          {"within_variance", value.within_variance},
          {"between_variance", value.between_variance}};
}

ordered_json known(bool is, double x) {
  return is ? number_json(x) : ordered_json(nullptr);
}

} // namespace

ordered_json estimate_json(const Estimate& value) {
  return {{"log_ratio", number_json(value.value)},
          {"interval_95", or_null(value.at_95, interval_json)},
          {"interval_judged", or_null(value.judged, interval_json)},
          {"p", or_null(value.p, number_json)},
          {"by_launch", value.by_launch},
          {"change_text", effect_text(value)},
          {"interval_text", interval_text(value.at_95)}};
}

ordered_json effect_json(const Effect& value) {
  ordered_json launches = ordered_json::array();
  for (const LaunchEffect& launch : value.launches) launches.push_back(launch_effect(launch));
  return {{"time", estimate_json(value.theta)},
          {"total_time", estimate_json(value.total_time)},
          {"hodges_lehmann", number_json(value.hodges_lehmann)},
          {"baseline_unit_ns", number_json(value.a_ns)},
          {"candidate_unit_ns", number_json(value.b_ns)},
          {"launch_spread", or_null(value.spread, spread)},
          {"minimum_detectable_effect", or_null(value.mde, number_json)},
          {"launches_for_sesoi",
           or_null(value.launches_for_sesoi, [](int x) { return ordered_json(x); })},
          {"launches", launches}};
}

ordered_json memory_json(const MemoryEffect& value) {
  ordered_json parts = ordered_json::array();
  for (const MemoryPartEffect& part : value.parts)
    parts.push_back({{"phase", text_json(part.phase)},
                     {"module", text_json(part.module)},
                     {"baseline_bytes", number_json(part.a_bytes)},
                     {"candidate_bytes", number_json(part.b_bytes)}});
  return {{"launches", value.launches},
          {"baseline_bytes", number_json(value.a_bytes)},
          {"candidate_bytes", number_json(value.b_bytes)},
          {"exact", value.exact},
          {"noise", or_null(value.noise, number_json)},
          {"bytes", estimate_json(value.log_ratio)},
          {"baseline_highest_in", text_json(value.a_moment)},
          {"candidate_highest_in", text_json(value.b_moment)},
          {"parts", parts}};
}

ordered_json energy_json(const EnergyEffect& value) {
  return {{"rounds", value.log_ratio.by_launch.size()},
          {"seconds", number_json(value.seconds)},
          {"baseline_j", number_json(value.a_j)},
          {"candidate_j", number_json(value.b_j)},
          {"baseline_token_j", known(value.a_token_j > 0, value.a_token_j)},
          {"candidate_token_j", known(value.b_token_j > 0, value.b_token_j)},
          {"energy", estimate_json(value.log_ratio)}};
}

ordered_json scaling_json(const Comparison& value) {
  if (value.times_ranks == 0 || !value.effect) return nullptr;
  const Estimate& theta = value.effect->theta;
  const auto efficiency = [&](double log_ratio) {
    return number_json(scaling_efficiency(value, log_ratio));
  };
  return {{"times_ranks", value.times_ranks},
          {"efficiency", efficiency(theta.value)},
          {"interval",
           theta.judged
               ? ordered_json{efficiency(theta.judged->upper), efficiency(theta.judged->lower)}
               : ordered_json(nullptr)}};
}

ordered_json time_to_loss_json(const TimeToLoss& value) {
  const bool timed = value.time.has_value(), reached = value.steps.has_value();
  return {{"target", number_json(value.target)},
          {"tokens_per_step",
           value.tokens_per_step > 0 ? ordered_json(value.tokens_per_step) : ordered_json(nullptr)},
          {"seeds", value.seeds},
          {"baseline_reached", value.a_reached},
          {"candidate_reached", value.b_reached},
          {"baseline_at_once", value.a_at_once},
          {"candidate_at_once", value.b_at_once},
          {"baseline_steps", known(reached, value.a_steps)},
          {"candidate_steps", known(reached, value.b_steps)},
          {"steps", or_null(value.steps, estimate_json)},
          {"baseline_seconds", known(timed, value.a_seconds)},
          {"candidate_seconds", known(timed, value.b_seconds)},
          {"time", or_null(value.time, estimate_json)}};
}

ordered_json loss_json(const LossTest& value) {
  ordered_json out = loss_test_json(value);
  out["log_ratio"] = or_null(value.log_ratio, estimate_json);
  return out;
}

ordered_json data_wait_json(const DataWait& value) {
  return {{"baseline_ns", number_json(value.a_ns)},
          {"candidate_ns", number_json(value.b_ns)},
          {"baseline_tokens_twice", number_json(value.a_twice)},
          {"candidate_tokens_twice", number_json(value.b_twice)}};
}

ordered_json first_step_json(const FirstStep& value) {
  return {{"ns", number_json(value.ns)},
          {"times", number_json(value.times)},
          {"launches", value.launches}};
}

ordered_json end_to_end_json(const EndToEnd& value) {
  return {{"step_ns", number_json(value.step_ns)},
          {"every", value.every},
          {"time", estimate_json(value.log_ratio)}};
}

} // namespace assay
