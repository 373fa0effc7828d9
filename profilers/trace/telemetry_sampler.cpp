#include "profilers/trace/telemetry_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "profilers/trace/trace_session.h"

namespace assay {

TelemetrySampler::TelemetrySampler(std::vector<TelemetryMeter> meters, double hz)
    : meters_(std::move(meters)),
      period_(std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / hz))) {
  samples_.reserve(meters_.size() * 1024);
  thread_ = std::thread([this] { run(); });
}

TelemetrySampler::~TelemetrySampler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::vector<TelemetryMetric> TelemetrySampler::metrics() const {
  std::vector<TelemetryMetric> metrics;
  for (const TelemetryMeter& meter : meters_) metrics.push_back(meter.metric);
  return metrics;
}

std::vector<TelemetrySampler::Sample> TelemetrySampler::take() {
  std::vector<Sample> fresh;
  const std::lock_guard lock(mutex_);
  fresh.reserve(samples_.capacity());
  fresh.swap(samples_);
  return fresh;
}

void TelemetrySampler::run() {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now();
  while (!stop_) {
    lock.unlock();
    std::vector<Sample> round;
    for (std::size_t i = 0; i < meters_.size(); ++i) {
      if (!meters_[i].read) continue;
      const std::optional<double> value = meters_[i].read();
      if (value) round.push_back({trace_now(), i, *value});
    }
    lock.lock();
    samples_.insert(samples_.end(), round.begin(), round.end());
    next = std::max(next + period_, std::chrono::steady_clock::now()); // late rounds are left out
    wake_.wait_until(lock, next, [this] { return stop_; });
  }
}

} // namespace assay
