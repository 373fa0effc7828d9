#include "experiments/engine/warmup.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "core/statistics/statistics.h"

namespace assay {

namespace {

constexpr std::size_t kWindow = 5;

// Squared standard error of a window's median: (pi / 2) sd^2 / n, with sd = 1.4826 MAD.
double median_variance(const std::vector<double>& window) {
  const double sd = 1.4826 * mad(window);
  return std::numbers::pi / 2 * sd * sd / static_cast<double>(window.size());
}

} // namespace

WarmUp::State WarmUp::add(const std::vector<VisitRow>& round) {
  if (state_ != State::Warming) return state_;
  double sum = 0;
  for (const VisitRow& visit : round)
    sum += std::log(static_cast<double>(visit.wall_ns) / visit.steps);
  log_times_.push_back(sum / static_cast<double>(round.size()));
  const std::size_t n = log_times_.size();
  if (n < 2 * kWindow || n % kWindow != 0) return state_;
  const auto end = log_times_.end();
  const std::vector<double> earlier(end - 2 * kWindow, end - kWindow), later(end - kWindow, end);
  change_ = std::abs(median(later) - median(earlier));
  allowed_ = std::max(tolerance_, 2 * std::sqrt(median_variance(earlier) + median_variance(later)));
  if (change_ < allowed_)
    state_ = State::Steady;
  else if (n >= static_cast<std::size_t>(cap_))
    state_ = State::Capped;
  return state_;
}

std::string WarmUp::detail() const {
  return fmt::format("{} after {} rounds: step time changed by {:.2f} %, allowed {:.2f} %",
                     state_ == State::Steady ? "steady" : "not steady",
                     log_times_.size(),
                     100 * std::expm1(change_),
                     100 * std::expm1(allowed_));
}

} // namespace assay
