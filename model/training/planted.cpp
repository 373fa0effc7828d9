#include "model/training/planted.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "core/span.h"
#include "core/statistics/statistics.h"
#include "kernels/cuda_check.h"
#include "kernels/spin.h"

namespace assay {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr std::chrono::milliseconds kWait{1};

// On the CPU, or enqueued on the GPU's current stream.
void busy_wait(nanoseconds time, bool cuda) {
  if (cuda) {
    launch_spin(time.count(), c10::cuda::getCurrentCUDAStream().stream());
    ASSAY_CUDA(cudaGetLastError());
    return;
  }
  const Clock::time_point until = Clock::now() + time;
  while (Clock::now() < until) {
  }
}

const char* span_name(PlantedWait stage) {
  switch (stage) {
  case PlantedWait::None:
    break;
  case PlantedWait::Forward:
    return "planted/forward";
  case PlantedWait::Backward:
    return "planted/backward";
  case PlantedWait::Optimizer:
    return "planted/optimizer";
  case PlantedWait::Ema:
    return "ema/planted";
  case PlantedWait::Host:
    return "planted/host";
  }
  return "planted/none";
}

at::cuda::CUDAEvent record_event() {
  at::cuda::CUDAEvent event(cudaEventDefault);
  event.record(c10::cuda::getCurrentCUDAStream());
  return event;
}

class Planted final : public StepHooks {
public:
  explicit Planted(const TrainConfig& config)
      : stage_(config.planted_wait), share_(planted_share(config)),
        cuda_(config.device == Device::Cuda),
        bytes_(std::llround(config.planted_mib * double{1 << 20})) {}

  void begin() override {
    if (share_ <= 0) return;
    if (cuda_)
      begin_event_ = record_event();
    else
      begin_ = Clock::now();
  }

  void before_forward() override {
    if (bytes_ == 0) return;
    const Span span("planted/memory");
    kept_ = at::empty({bytes_}, at::TensorOptions(cuda_ ? at::kCUDA : at::kCPU).dtype(at::kByte));
  }

  void after(PlantedWait stage) override {
    if (stage == PlantedWait::Optimizer) kept_.reset();
    if (stage != stage_) return;
    const Span span(span_name(stage));
    if (stage == PlantedWait::Host)
      std::this_thread::sleep_for(kWait);
    else
      busy_wait(kWait, cuda_);
  }

  void end() override {
    if (share_ <= 0) return;
    if (cuda_) {
      pending_.emplace_back(std::move(begin_event_), record_event());
      collect_finished();
    } else {
      remember(static_cast<double>(nanoseconds(Clock::now() - begin_).count()));
    }
    const Span span("planted/spin");
    const nanoseconds asked = spin_time();
    const Clock::time_point start = Clock::now();
    busy_wait(asked, cuda_);
    waited_ += cuda_ ? asked : nanoseconds(Clock::now() - start);
  }

  std::int64_t waited_ns() const override { return waited_.count(); }

private:
  // The host runs ahead of the device: only steps that are already over have a duration, and
  // nobody waits for them.
  void collect_finished() {
    while (!pending_.empty() && pending_.front().second.query()) {
      const auto& [first, second] = pending_.front();
      remember(static_cast<double>(first.elapsed_time(second)) * 1e6);
      pending_.pop_front();
    }
  }

  void remember(double step_ns) {
    steps_ns_.push_back(step_ns);
    if (steps_ns_.size() > kSettledSteps) steps_ns_.pop_front();
  }

  nanoseconds spin_time() const {
    if (steps_ns_.empty()) return nanoseconds(0);
    return nanoseconds(std::llround(share_ * median({steps_ns_.begin(), steps_ns_.end()})));
  }

  PlantedWait stage_;
  double share_;
  bool cuda_;
  std::int64_t bytes_; // of kept_, in the middle of a step
  at::Tensor kept_;
  Clock::time_point begin_;
  at::cuda::CUDAEvent begin_event_;
  std::deque<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>> pending_; // of unfinished steps
  std::deque<double> steps_ns_; // the last kSettledSteps, without the wait
  nanoseconds waited_{0};
};

} // namespace

std::unique_ptr<StepHooks> planted_hooks(const TrainConfig& config) {
  const bool waits = planted_share(config) > 0 || config.planted_wait != PlantedWait::None;
  if (!waits && config.planted_mib <= 0) return nullptr;
  return std::make_unique<Planted>(config);
}

} // namespace assay
