#include "experiments/engine/quiet_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/ledger/covariates.h"
#include "core/stopwatch.h"
#include "core/text.h"

namespace assay {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLateSeconds = 0.05; // that a sample may end after the limit

// In short pieces, so that Ctrl-C ends it.
void pause(double seconds, const std::function<bool()>& stopped) {
  const auto start = Clock::now();
  while (!stopped() && seconds_since(start) < seconds)
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::min(0.05, seconds - seconds_since(start))));
}

} // namespace

std::string QuietResult::detail() const {
  if (first.empty()) return "";
  if (quiet)
    return fmt::format("waited {} until the machine was quiet: {}", human_seconds(seconds), last);
  return fmt::format(
      "waited {}; the machine did not become quiet: {}", human_seconds(seconds), last);
}

QuietResult wait_for_quiet(const QuietWait& options,
                           const DisturbanceLimits& limits,
                           const std::function<bool()>& stopped,
                           const std::function<void(const std::string&, double)>& waiting) {
  QuietResult result;
  const auto start = Clock::now();
  int in_a_row = 0;
  double longest = 0; // sample so far, seconds
  while (in_a_row < kQuietSamples) {
    const double begin = seconds_since(start);
    const std::string cause = disturbance(options.sample(), limits);
    result.seconds = seconds_since(start);
    longest = std::max(longest, result.seconds - begin);
    in_a_row = cause.empty() ? in_a_row + 1 : 0;
    if (!cause.empty()) {
      if (result.first.empty()) result.first = cause;
      result.last = cause;
      waiting(cause, result.seconds);
    }
    const double spare = options.limit_seconds - result.seconds - longest;
    if (stopped() || (spare < -kLateSeconds && in_a_row < kQuietSamples)) {
      result.quiet = !stopped() && result.first.empty();
      break;
    }
    if (!cause.empty()) pause(std::min(options.pause_seconds, spare), stopped);
  }
  return result;
}

} // namespace assay
