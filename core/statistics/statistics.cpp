#include "core/statistics/statistics.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>
#include <limits>

namespace assay {

namespace {

// Binomial and Fisher sums compare probabilities that are equal on paper and not in floating point.
constexpr double kTieFactor = 1 + 1e-7;
// Width of a 95 % normal interval in standard errors.
constexpr double kNormalWidth95 = 3.92;

// Doubles as integers of the same order, so that they can be bisected.
constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

std::uint64_t ordered_bits(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return (bits & kSignBit) != 0 ? ~bits : bits | kSignBit;
}

double from_ordered_bits(std::uint64_t bits) {
  return std::bit_cast<double>((bits & kSignBit) != 0 ? bits & ~kSignBit : ~bits);
}

// How many of the sums x_i + x_j, i <= j, are at most `limit`; `sorted` rises.
std::uint64_t count_sums(const std::vector<double>& sorted, double limit) {
  std::uint64_t count = 0;
  std::size_t end = sorted.size(); // sums with x_i are at most `limit` for j < end
  for (std::size_t i = 0; i < end; ++i) {
    while (end > i && sorted[i] + sorted[end - 1] > limit) --end;
    count += end - i;
  }
  return count;
}

// The sum of rank `rank`, from 0: bisection over all doubles between the smallest and the largest.
double sum_of_rank(const std::vector<double>& sorted, std::uint64_t rank) {
  std::uint64_t low = ordered_bits(2 * sorted.front()), high = ordered_bits(2 * sorted.back());
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (count_sums(sorted, from_ordered_bits(middle)) > rank)
      high = middle;
    else
      low = middle + 1;
  }
  return from_ordered_bits(low);
}

double normal_cdf(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

// P(|T| > critical) of a non-central t by Simpson's rule over the ratio of the estimated to the
// true standard deviation: for shifts at which the series of the distribution does not converge.
double integrated_power(double shift, double critical, double df) {
  constexpr int kPanels = 4000;
  const double widest = 1 + 12 / std::sqrt(2 * df);
  const double log_scale = std::log(2.0) + df / 2 * std::log(df / 2) - std::lgamma(df / 2);
  const auto integrand = [&](double ratio) {
    if (ratio == 0) return df > 1 ? 0.0 : std::exp(log_scale) * normal_cdf(shift);
    const double density =
        std::exp(log_scale + (df - 1) * std::log(ratio) - df * ratio * ratio / 2);
    return density * (normal_cdf(shift - critical * ratio) + normal_cdf(-shift - critical * ratio));
  };
  double sum = integrand(0) + integrand(widest);
  for (int i = 1; i < kPanels; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(widest * i / kPanels);
  return std::min(1.0, sum * widest / kPanels / 3);
}

// Power of the two-sided t test where the mean is `shift` standard errors from 0.
double power_at_shift(double shift, double df, double critical) {
  // Beyond this the series of the distribution stops converging.
  constexpr double kLargestShift = 37;
  if (shift > kLargestShift) return integrated_power(shift, critical, df);
  const boost::math::non_central_t shifted(df, shift);
  return boost::math::cdf(boost::math::complement(shifted, critical)) +
         boost::math::cdf(shifted, -critical);
}

double log_choose(double n, double k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

} // namespace

double mean(const std::vector<double>& values) {
  assert(!values.empty());
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double sample_sd(const std::vector<double>& values) {
  assert(values.size() >= 2);
  const double center = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - center) * (value - center);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double quantile(std::vector<double> values, double p) {
  assert(!values.empty() && p >= 0 && p <= 1);
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), at, values.end());
  const double low = *at;
  if (below + 1 == values.size()) return low;
  const double high = *std::min_element(at + 1, values.end());
  return low + (place - static_cast<double>(below)) * (high - low);
}

double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

double mad(const std::vector<double>& values) {
  const double center = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - center));
  return median(std::move(distances));
}

double hodges_lehmann(const std::vector<double>& values) {
  assert(!values.empty());
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const std::uint64_t n = sorted.size(), sums = n * (n + 1) / 2;
  const double low = sum_of_rank(sorted, (sums - 1) / 2) / 2;
  const double high = sums % 2 == 1 ? low : sum_of_rank(sorted, sums / 2) / 2;
  return low + (high - low) / 2;
}

std::size_t median_rank(std::size_t n, double alpha) {
  if (n == 0) return 0;
  const boost::math::binomial coin(static_cast<double>(n), 0.5);
  std::size_t low = 0, high = n / 2; // the probability of fewer than k rises with k
  while (low < high) {
    const std::size_t k = high - (high - low) / 2;
    if (boost::math::cdf(coin, static_cast<double>(k - 1)) <= alpha / 2)
      low = k;
    else
      high = k - 1;
  }
  return low;
}

std::optional<Interval> median_interval(std::vector<double> values, double alpha) {
  const std::size_t k = median_rank(values.size(), alpha);
  if (k == 0) return std::nullopt;
  std::sort(values.begin(), values.end());
  return Interval{values[k - 1], values[values.size() - k]};
}

double fisher_exact_p(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  const std::int64_t row = a + b;
  const std::int64_t column = a + c;
  const std::int64_t total = row + c + d;
  const auto log_probability = [&](std::int64_t x) {
    return log_choose(static_cast<double>(row), static_cast<double>(x)) +
           log_choose(static_cast<double>(total - row), static_cast<double>(column - x)) -
           log_choose(static_cast<double>(total), static_cast<double>(column));
  };
  const double observed = log_probability(a) + std::log(kTieFactor);
  double p = 0;
  for (std::int64_t x = std::max<std::int64_t>(0, row + column - total); x <= std::min(row, column);
       ++x)
    if (const double candidate = log_probability(x); candidate <= observed)
      p += std::exp(candidate);
  return std::min(1.0, p);
}

double student_quantile(double p, double df) {
  return boost::math::quantile(boost::math::students_t(df), p);
}

std::optional<Interval> t_interval(const std::vector<double>& values, double alpha) {
  if (values.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const double reach = student_quantile(1 - alpha / 2, n - 1) * sample_sd(values) / std::sqrt(n);
  const double center = mean(values);
  return Interval{center - reach, center + reach};
}

std::optional<double> t_test_p(const std::vector<double>& values) {
  if (values.size() < 2) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const double center = mean(values);
  const double error = sample_sd(values) / std::sqrt(n);
  if (error == 0) return center == 0 ? 1.0 : 0.0;
  const boost::math::students_t student(n - 1);
  return 2 * boost::math::cdf(boost::math::complement(student, std::abs(center / error)));
}

std::vector<bool> benjamini_hochberg(const std::vector<double>& p_values, double rate) {
  std::vector<double> sorted = p_values;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  double largest = -1; // the largest p value that is still rejected
  for (std::size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] <= static_cast<double>(i + 1) * rate / n) largest = sorted[i];
  std::vector<bool> rejected;
  for (const double p : p_values) rejected.push_back(p <= largest);
  return rejected;
}

std::optional<double> median_standard_error(const std::vector<double>& values) {
  const std::optional<Interval> interval = median_interval(values, 0.05);
  if (!interval) return std::nullopt;
  return (interval->upper - interval->lower) / kNormalWidth95;
}

std::optional<LaunchSpread> launch_spread(const std::vector<double>& values,
                                          const std::vector<double>& errors) {
  if (values.size() < 2) return std::nullopt;
  LaunchSpread spread;
  const double sd = sample_sd(values);
  spread.total_variance = sd * sd;
  for (const double error : errors)
    spread.within_variance += error * error / static_cast<double>(errors.size());
  spread.between_variance = std::max(spread.total_variance - spread.within_variance, 0.0);
  return spread;
}

double minimum_detectable_effect(double launch_sd, int launches, double alpha, double power) {
  assert(launches >= 2 && power > alpha && power < 1);
  const double df = launches - 1, critical = student_quantile(1 - alpha / 2, df);
  double low = 0, high = critical; // in standard errors of the mean
  while (power_at_shift(high, df, critical) < power) high *= 2;
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (power_at_shift(middle, df, critical) < power ? low : high) = middle;
  }
  return high * launch_sd / std::sqrt(static_cast<double>(launches));
}

double t_test_power(double effect, double launch_sd, int launches, double alpha) {
  assert(launches >= 2 && launch_sd >= 0);
  if (launch_sd == 0) return effect == 0 ? alpha : 1;
  const double shift = std::abs(effect) / (launch_sd / std::sqrt(static_cast<double>(launches)));
  if (shift == 0) return alpha;
  const double df = launches - 1;
  return power_at_shift(shift, df, student_quantile(1 - alpha / 2, df));
}

std::optional<int>
launches_needed(double effect, double launch_sd, double alpha, double power, int limit) {
  if (effect == 0 && launch_sd > 0) return std::nullopt;
  const auto enough = [&](int launches) {
    return t_test_power(effect, launch_sd, launches, alpha) >= power;
  };
  int high = 2;
  while (high < limit && !enough(high)) high = std::min(2 * high, limit);
  if (!enough(high)) return std::nullopt;
  int low = 2;
  while (low < high) { // power grows with the number of launches
    const int middle = low + (high - low) / 2;
    if (enough(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

} // namespace assay
