// Effect: how much longer the candidate takes than the baseline, as theta = ln(candidate /
// baseline). A launch gives one value (the median over its pairs), launches give the estimate and
// its t interval. theta < 0: the candidate is faster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/statistics/statistics.h"
#include "experiments/evidence/pairs.h"

namespace assay {

inline constexpr int kProvisionalLaunches = 3; // fewest for a verdict, tagged PROVISIONAL
inline constexpr int kFullLaunches = 5;        // fewest for FASTER, SLOWER and claims of time

// One number a launch, summed up over launches.
struct Estimate {
  std::vector<double> by_launch;
  double value = 0;               // mean over launches
  std::optional<Interval> judged; // t interval at alpha / m: what the verdict reads and what is
                                  // beside it; needs 2 launches
  std::optional<Interval> at_95;  // for details
  std::optional<double> p;        // two-sided t test of 0
};
// Needs at least one value.
Estimate estimate(std::vector<double> by_launch, double judged_alpha);

struct LaunchEffect {
  std::int64_t launch = 0;
  int index = 0;
  std::size_t pairs = 0;            // counted ones
  double theta = 0;                 // median of ln(b / a)
  std::optional<Interval> interval; // exact 95 % interval of that median
  std::optional<double> error;      // its standard error
  double hodges_lehmann = 0;
  double sum_ratio = 0; // ln(sum b / sum a)
};

struct Effect {
  std::vector<LaunchEffect> launches;
  Estimate theta;      // of the launch medians: the verdict's effect
  Estimate total_time; // of ln(sum b / sum a): rare stalls included
  double hodges_lehmann = 0;
  // The baseline's median time of a unit over the pairs that count, and that by the effect. The
  // candidate's own median may be on the other side of the baseline's where launches differ in
  // drift or weight.
  double a_ns = 0, b_ns = 0;
  std::optional<LaunchSpread> spread;
  // At judged_alpha and the planned power, from the same s_L and L - 1 degrees of freedom as
  // theta.judged. Nothing below kFullLaunches: with 3 launches s_L is between .32 and 1.52 times
  // the true figure in 8 of 10 runs, with 5 between .52 and 1.39 (chi squared / df).
  std::optional<double> mde;
  // Launches that would see the smallest effect of interest, from the same s_L; nothing above
  // 1,000.
  std::optional<int> launches_for_sesoi;
  bool tail = false; // median and sum disagree in sign, intervals apart
};

struct EffectOptions {
  double judged_alpha = 0.05;
  double power = 0.8;
  double sesoi = 0.01;
  bool with_excluded = false;
};

// Nothing without a single counted pair.
std::optional<Effect> estimate_effect(const PairSet& pairs, const EffectOptions& options);
// The effect of a pair in a weighted sum; what it points to must live as long.
struct WeightedEffect {
  const Effect* effect;
  double weight;
};
// The sum of weight * theta, launch by launch, over launches that every term has; likewise by total
// time. So the launches of all terms are the sample, however the terms depend on each other inside
// a launch. Without unit times, and without errors within launches. Nothing without such a launch.
std::optional<Effect> weighted_sum(const std::vector<WeightedEffect>& terms,
                                   const EffectOptions& options);
// estimate_effect of the device's busy time; nothing unless every counted pair has it.
std::optional<Estimate> device_effect(const PairSet& pairs, const EffectOptions& options);
// How much longer the second visit of a round takes than the first, whatever the variants:
// (median of d where the candidate came second - median of d where the baseline did) / 2. A health
// figure.
std::optional<Estimate> position_effect(const PairSet& pairs, double judged_alpha);

} // namespace assay
