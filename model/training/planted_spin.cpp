#include "model/training/planted_spin.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/spin.h"

namespace assay {

namespace {

constexpr std::size_t kWindow = 31;

std::int64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

at::cuda::CUDAEvent record_event() {
  at::cuda::CUDAEvent event(cudaEventDefault);
  event.record(c10::cuda::getCurrentCUDAStream());
  return event;
}

} // namespace

struct PlantedSpin::Events {
  at::cuda::CUDAEvent begin;
  std::deque<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>> pending;
};

PlantedSpin::PlantedSpin(const TrainConfig& config)
    : share_(config.planted_spin), cuda_(config.device == Device::Cuda),
      events_(std::make_unique<Events>()) {}

PlantedSpin::~PlantedSpin() = default;

void PlantedSpin::begin() {
  if (share_ <= 0) return;
  if (cuda_)
    events_->begin = record_event();
  else
    begin_ns_ = now_ns();
}

void PlantedSpin::end() {
  if (share_ <= 0) return;
  if (cuda_) {
    events_->pending.emplace_back(std::move(events_->begin), record_event());
    collect_finished();
  } else {
    remember(now_ns() - begin_ns_);
  }
  const Span span("planted/spin");
  if (cuda_) {
    launch_spin(wait_ns(), c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
    return;
  }
  const std::int64_t until = now_ns() + wait_ns();
  while (now_ns() < until) {
  }
}

// The host runs ahead of the device: only steps that are already over tell their duration, and
// nobody waits for them.
void PlantedSpin::collect_finished() {
  while (!events_->pending.empty() && events_->pending.front().second.query()) {
    const auto& [first, second] = events_->pending.front();
    remember(std::llround(static_cast<double>(first.elapsed_time(second)) * 1e6));
    events_->pending.pop_front();
  }
}

void PlantedSpin::remember(std::int64_t duration_ns) {
  durations_ns_.push_back(duration_ns);
  if (durations_ns_.size() > kWindow) durations_ns_.pop_front();
}

std::int64_t PlantedSpin::wait_ns() const {
  if (durations_ns_.empty()) return 0;
  std::vector<std::int64_t> sorted(durations_ns_.begin(), durations_ns_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return std::llround(share_ * static_cast<double>(*middle));
}

} // namespace assay
