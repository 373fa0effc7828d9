#include "core/statistics/tost.h"

#include <boost/math/distributions/students_t.hpp>
#include <cassert>
#include <cmath>

namespace assay {

namespace {

// P(T_df > t), also for the infinite t of differences that do not vary; t = 0/0 counts as 0.
double upper_tail(double distance, double error, double df) {
  if (error == 0) return distance > 0 ? 0.0 : distance < 0 ? 1.0 : 0.5;
  const boost::math::students_t student(df);
  return boost::math::cdf(boost::math::complement(student, distance / error));
}

} // namespace

std::optional<Tost> tost(const std::vector<double>& differences, double margin, double alpha) {
  assert(margin > 0);
  const std::optional<Interval> interval = t_interval(differences, 2 * alpha);
  if (!interval) return std::nullopt;
  const auto n = static_cast<double>(differences.size());
  const double error = sample_sd(differences) / std::sqrt(n);
  Tost result;
  result.mean = mean(differences);
  result.interval = *interval;
  result.alpha = alpha;
  result.p_low = upper_tail(result.mean + margin, error, n - 1);
  result.p_high = upper_tail(margin - result.mean, error, n - 1);
  return result;
}

std::optional<int>
tost_pairs_needed(double sd, double margin, double power, double alpha, int limit) {
  assert(sd >= 0 && margin > 0 && power > 0 && power < 1);
  for (int n = 2; n <= limit; ++n) {
    const double df = n - 1;
    const double reach = student_quantile(1 - alpha, df) + student_quantile((1 + power) / 2, df);
    if (reach * sd / std::sqrt(static_cast<double>(n)) <= margin) return n;
  }
  return std::nullopt;
}

} // namespace assay
