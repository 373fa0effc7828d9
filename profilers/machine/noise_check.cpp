#include "profilers/machine/noise_check.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstdint>

#include "core/statistics/statistics.h"
#include "profilers/machine/host_sampler.h"

namespace assay {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

// A dependent chain of multiplications: fixed work, no memory traffic, nothing to vectorise
// (Knuth's MMIX generator).
std::uint64_t spin(std::uint64_t state, int iterations) {
  for (int i = 0; i < iterations; ++i)
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return state;
}

// Iterations that take about one millisecond.
int calibrate(std::uint64_t& state) {
  constexpr int kProbe = 100'000;
  double fastest = 1e9;
  for (int i = 0; i < 10; ++i) {
    const Clock::time_point start = Clock::now();
    state = spin(state, kProbe);
    fastest = std::min(fastest, milliseconds(Clock::now() - start));
  }
  return std::max(kProbe / 10, static_cast<int>(kProbe / fastest));
}

} // namespace

NoiseCheck summarize_slices(const std::vector<double>& slice_ms) {
  assert(!slice_ms.empty() && "a noise check has at least one slice");
  NoiseCheck check;
  check.slices = static_cast<int>(slice_ms.size());
  check.median_ms = median(slice_ms);
  check.slowest = *std::max_element(slice_ms.begin(), slice_ms.end()) / check.median_ms;
  check.spread = 1.4826 * mad(slice_ms) / check.median_ms;
  return check;
}

NoiseCheck check_noise(double seconds) {
  static volatile std::uint64_t sink = 1; // keeps the loop's result alive
  std::uint64_t state = sink;
  const int iterations = calibrate(state);
  HostSampler whole, window;
  whole.begin();
  window.begin();
  std::optional<double> worst_steal;
  std::vector<double> slices;
  const Clock::time_point begin = Clock::now();
  Clock::time_point window_begin = begin, now = begin;
  while (milliseconds(now - begin) < seconds * 1000 || slices.empty()) {
    const Clock::time_point start = Clock::now();
    state = spin(state, iterations);
    now = Clock::now();
    slices.push_back(milliseconds(now - start));
    if (milliseconds(now - window_begin) < 100) continue;
    if (const std::optional<double> steal = window.end().steal_share)
      worst_steal = std::max(worst_steal.value_or(0), *steal);
    window.begin();
    window_begin = now;
  }
  sink = state;
  NoiseCheck check = summarize_slices(slices);
  check.worst_steal = worst_steal;
  check.run_delay = whole.end().run_delay_share;
  return check;
}

} // namespace assay
