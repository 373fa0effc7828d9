#include "experiments/evidence/effect.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace assay {

namespace {

LaunchEffect launch_effect(const LaunchPairs& launch, bool with_excluded) {
  LaunchEffect effect;
  effect.launch = launch.launch;
  effect.index = launch.index;
  const std::vector<double> ratios = launch.log_ratios(with_excluded);
  effect.pairs = ratios.size();
  if (ratios.empty()) return effect;
  effect.theta = median(ratios);
  effect.interval = median_interval(ratios, kShownAlpha);
  effect.error = median_standard_error(ratios);
  effect.hodges_lehmann = hodges_lehmann(ratios);
  double a = 0, b = 0;
  for (const Pair& pair : launch.pairs) {
    if (!with_excluded && !pair.excluded.empty()) continue;
    a += pair.a_ns;
    b += pair.b_ns;
  }
  effect.sum_ratio = std::log(b / a);
  return effect;
}

void add_unit_times(Effect& effect, const PairSet& pairs, bool with_excluded) {
  std::vector<double> a;
  for (const LaunchPairs& launch : pairs.launches) {
    if (!with_excluded && !launch.counts()) continue;
    for (const Pair& pair : launch.pairs)
      if (with_excluded || pair.excluded.empty()) a.push_back(pair.a_ns);
  }
  effect.a_ns = median(std::move(a));
  effect.b_ns = effect.a_ns * std::exp(effect.theta.value);
}

void add_precision(Effect& effect, const EffectOptions& options) {
  std::vector<double> errors;
  for (const LaunchEffect& launch : effect.launches)
    if (launch.error) errors.push_back(*launch.error);
  effect.spread = launch_spread(effect.theta.by_launch, errors);
  const auto launches = static_cast<int>(effect.launches.size());
  if (!effect.spread || launches < kFullLaunches) return;
  const double launch_sd = std::sqrt(effect.spread->total_variance); // the interval's
  effect.mde = minimum_detectable_effect(launch_sd, launches, options.judged_alpha, options.power);
  if (options.sesoi > 0)
    effect.launches_for_sesoi =
        launches_needed(std::log1p(options.sesoi), launch_sd, options.judged_alpha, options.power);
}

bool signs_and_intervals_disagree(const Estimate& x, const Estimate& y) {
  return x.at_95 && y.at_95 && x.value * y.value < 0 && !x.at_95->overlaps(*y.at_95);
}

// Everything but the unit times; there is at least one launch.
Effect effect_of_launches(std::vector<LaunchEffect> launches, const EffectOptions& options) {
  Effect effect;
  std::vector<double> medians, sums, locations;
  for (const LaunchEffect& one : launches) {
    medians.push_back(one.theta);
    sums.push_back(one.sum_ratio);
    locations.push_back(one.hodges_lehmann);
  }
  effect.launches = std::move(launches);
  effect.theta = estimate(std::move(medians), options.judged_alpha);
  effect.total_time = estimate(std::move(sums), options.judged_alpha);
  effect.hodges_lehmann = mean(locations);
  effect.tail = signs_and_intervals_disagree(effect.theta, effect.total_time);
  add_precision(effect, options);
  return effect;
}

} // namespace

Estimate estimate(std::vector<double> by_launch, double judged_alpha) {
  Estimate result;
  result.value = mean(by_launch);
  result.at_95 = t_interval(by_launch, kShownAlpha);
  result.judged = t_interval(by_launch, judged_alpha);
  result.p = t_test_p(by_launch);
  result.by_launch = std::move(by_launch);
  return result;
}

std::optional<Effect> estimate_effect(const PairSet& pairs, const EffectOptions& options) {
  std::vector<LaunchEffect> launches;
  for (const LaunchPairs& launch : pairs.launches)
    if (options.with_excluded || launch.counts())
      launches.push_back(launch_effect(launch, options.with_excluded));
  if (launches.empty()) return std::nullopt;
  Effect effect = effect_of_launches(std::move(launches), options);
  add_unit_times(effect, pairs, options.with_excluded);
  return effect;
}

std::optional<Effect> weighted_sum(const std::vector<WeightedEffect>& terms,
                                   const EffectOptions& options) {
  std::map<std::int64_t, LaunchEffect> sums;
  std::map<std::int64_t, std::size_t> found; // terms that have the launch
  for (const WeightedEffect& term : terms)
    for (const LaunchEffect& launch : term.effect->launches) {
      const bool first = found[launch.launch]++ == 0;
      LaunchEffect& sum = sums[launch.launch];
      sum.launch = launch.launch;
      sum.index = launch.index;
      sum.pairs = first ? launch.pairs : std::min(sum.pairs, launch.pairs);
      sum.theta += term.weight * launch.theta;
      sum.sum_ratio += term.weight * launch.sum_ratio;
      sum.hodges_lehmann += term.weight * launch.hodges_lehmann;
    }
  std::vector<LaunchEffect> launches;
  for (const auto& [id, sum] : sums)
    if (found[id] == terms.size()) launches.push_back(sum);
  if (launches.empty()) return std::nullopt;
  return effect_of_launches(std::move(launches), options);
}

std::optional<Estimate> device_effect(const PairSet& pairs, const EffectOptions& options) {
  std::vector<double> medians;
  for (const LaunchPairs& launch : pairs.launches) {
    if (!options.with_excluded && !launch.counts()) continue;
    std::vector<double> ratios;
    for (const Pair& pair : launch.pairs) {
      if (!pair.a_device_ns || !pair.b_device_ns) return std::nullopt;
      if (options.with_excluded || pair.excluded.empty())
        ratios.push_back(std::log(*pair.b_device_ns / *pair.a_device_ns));
    }
    medians.push_back(median(std::move(ratios)));
  }
  if (medians.empty()) return std::nullopt;
  return estimate(std::move(medians), options.judged_alpha);
}

std::optional<Estimate> position_effect(const PairSet& pairs, double judged_alpha) {
  std::vector<double> by_launch;
  for (const LaunchPairs& launch : pairs.launches) {
    if (!launch.counts()) continue;
    std::vector<double> candidate_second, baseline_second;
    for (const Pair& pair : launch.pairs)
      if (pair.excluded.empty())
        (pair.candidate_second ? candidate_second : baseline_second).push_back(pair.log_ratio);
    if (candidate_second.empty() || baseline_second.empty()) continue;
    by_launch.push_back((median(std::move(candidate_second)) - median(std::move(baseline_second))) /
                        2);
  }
  if (by_launch.empty()) return std::nullopt;
  return estimate(std::move(by_launch), judged_alpha);
}

} // namespace assay
