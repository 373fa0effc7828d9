// Statistics of paired timings: robust location, exact intervals, launch-level t intervals, power.
// Pure functions; every formula with its source is in docs/statistics.md. Reference values:
// tests/core/scipy_vectors.json.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace assay {

struct Interval {
  double lower = 0, upper = 0;

  bool contains(double value) const { return lower <= value && value <= upper; }
  bool overlaps(const Interval& other) const {
    return lower <= other.upper && other.lower <= upper;
  }
  double half_width() const { return (upper - lower) / 2; }
};

double mean(const std::vector<double>& values);      // needs 1 value
double sample_sd(const std::vector<double>& values); // divisor n - 1; needs 2 values

// Intervals that no verdict reads are of 95 %.
inline constexpr double kShownAlpha = 0.05;

// Linear interpolation between order statistics (Hyndman and Fan, type 7). Needs 1 value,
// 0 <= p <= 1.
double quantile(std::vector<double> values, double p);
double median(std::vector<double> values);
// Median absolute deviation from the median, not scaled. Times 1.4826 it estimates a normal sd.
double mad(const std::vector<double>& values);
// Median of the n (n + 1) / 2 Walsh averages (Hodges and Lehmann 1963, one sample), to the last
// bit. Needs 1 finite value. Time O(n log n), memory O(n).
double hodges_lehmann(const std::vector<double>& values);

// k = max {j : P(Bin(n, 1/2) < j) <= alpha / 2}; 0 when n is too small for an interval. Asks the
// distribution O(log n) times.
std::size_t median_rank(std::size_t n, double alpha);
// Exact interval of the median, [d_(k), d_(n+1-k)], whatever the (continuous) distribution.
// Nothing when there are too few values (below 6 at alpha .05).
std::optional<Interval> median_interval(std::vector<double> values, double alpha);
// Two-sided Fisher exact p of the table {{a, b}, {c, d}}: the sum of all tables that are not more
// probable.
double fisher_exact_p(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d);

// Student quantile: P(T_df <= result) = p.
double student_quantile(double p, double df);
// mean +- t_{1 - alpha/2, n - 1} s / sqrt(n). Nothing below 2 values.
std::optional<Interval> t_interval(const std::vector<double>& values, double alpha);
// Two-sided p of the hypothesis that the mean is 0. Nothing below 2 values.
std::optional<double> t_test_p(const std::vector<double>& values);
// Which hypotheses are rejected when the false discovery rate is held at `rate`: the k smallest p
// values, k the largest rank with p_(k) <= k rate / n (Benjamini and Hochberg 1995).
std::vector<bool> benjamini_hochberg(const std::vector<double>& p_values, double rate);

// Standard error of a median from its exact 95 % interval: (d_(n+1-k) - d_(k)) / 3.92. Nothing when
// there is no such interval.
std::optional<double> median_standard_error(const std::vector<double>& values);

// Where the spread of launch medians comes from: s_between^2 = max(s_L^2 - mean se_l^2, 0).
struct LaunchSpread {
  double total_variance = 0;   // s_L^2, of the launch values
  double within_variance = 0;  // mean se_l^2, what pairs inside a launch explain; of few pairs it
                               // is an upper bound and may exceed s_L^2 (docs/statistics.md)
  double between_variance = 0; // what they do not: layout, allocator, placement
};
// `errors`: standard errors of the launch values, as many as are known. Nothing below 2 values.
std::optional<LaunchSpread> launch_spread(const std::vector<double>& values,
                                          const std::vector<double>& errors);

// Smallest effect that a t test at `alpha` sees with probability `power` (t_test_power). Where
// `launch_sd` is the s_L of the launch values, it is half the width of their t interval at `alpha`
// times a factor that depends on launches, alpha and power alone (5, .05, .8: 1.36). Needs 2
// launches.
double minimum_detectable_effect(double launch_sd, int launches, double alpha, double power);

// Power of the two-sided t test over launches at a true effect (non-central t). `launch_sd`: of one
// launch value. Needs 2 launches.
double t_test_power(double effect, double launch_sd, int launches, double alpha);
// Fewest launches (at most `limit`) with at least that power; nothing when `limit` is not enough.
std::optional<int>
launches_needed(double effect, double launch_sd, double alpha, double power, int limit = 1000);

} // namespace assay
