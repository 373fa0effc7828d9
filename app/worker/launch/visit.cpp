#include "app/worker/launch/visit.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <chrono>
#include <cmath>

#include "profilers/trace/trace_session.h"

namespace assay::worker {

namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Clock of one visit. On the CPU a unit's time is the host clock around it. On a GPU the host runs
// ahead, so a unit's time is the distance of CUDA events, and the host clock is read only with the
// device drained.
class VisitClock {
public:
  VisitClock(bool cuda, std::size_t units) : cuda_(cuda), marks_(units + 1) {
    if (cuda_)
      for (at::cuda::CUDAEvent& event : events_ = std::vector<at::cuda::CUDAEvent>(units + 1))
        event = at::cuda::CUDAEvent(cudaEventDefault);
  }
  void drain() const {
    if (cuda_) c10::cuda::device_synchronize();
  }
  void mark(std::size_t unit) {
    if (cuda_) events_[unit].record(c10::cuda::getCurrentCUDAStream());
    marks_[unit] = now_ns();
  }
  std::int64_t between(std::size_t from, std::size_t to) const {
    if (cuda_)
      return std::llround(static_cast<double>(events_[from].elapsed_time(events_[to])) * 1e6);
    return marks_[to] - marks_[from];
  }

private:
  bool cuda_;
  std::vector<std::int64_t> marks_;
  std::vector<at::cuda::CUDAEvent> events_;
};

// The loss of an evaluation, where this rank knows it; that of a step waits for the device in
// `steps`.
std::optional<double>
run_unit(Trainer& trainer, bool evaluation, const UnitData& data, std::vector<StepResult>& steps) {
  if (evaluation) {
    const EvalResult result = trainer.evaluate(data);
    return result.known() ? std::optional(result.nats_per_token) : std::nullopt;
  }
  steps.push_back(trainer.step(data));
  return std::nullopt;
}

std::int64_t token_count(const UnitData& unit) {
  std::int64_t tokens = 0;
  for (const Batch& batch : unit) tokens += batch.token_count();
  return tokens;
}

} // namespace

UnitSource prepared(const std::vector<UnitData>& units) {
  return {units.size(), [&units](std::size_t i) -> const UnitData& { return units[i]; }};
}

VisitResult run_visit(Trainer& trainer,
                      bool evaluation,
                      const UnitSource& units,
                      int discard,
                      UnitObserver* observer,
                      const std::function<void()>& barrier) {
  const bool cuda = trainer.config().device == Device::Cuda;
  VisitClock clock(cuda, units.count);
  VisitResult result;
  const std::int64_t skipped_before = trainer.skipped_steps();
  std::vector<StepResult> steps;
  steps.reserve(units.count);
  clock.drain();
  if (barrier) {
    barrier();
    clock.drain();
  }
  std::int64_t start = now_ns();
  std::int64_t planted_before = trainer.planted_wait_ns();
  clock.mark(0);
  for (std::size_t i = 0; i < units.count; ++i) {
    const bool counted = i >= static_cast<std::size_t>(discard);
    if (i == static_cast<std::size_t>(discard) && i > 0) {
      clock.drain();
      start = now_ns();
      planted_before = trainer.planted_wait_ns();
    }
    const std::int64_t unit_start = observer != nullptr ? trace_now() : 0;
    const UnitData& unit = units.take(i);
    const std::optional<double> loss = run_unit(trainer, evaluation, unit, steps);
    clock.mark(i + 1);
    if (observer != nullptr) observer->unit(unit_start, trace_now(), counted, token_count(unit));
    if (counted) result.tokens += token_count(unit);
    if (evaluation) result.loss = loss;
  }
  const std::int64_t launched = now_ns();
  clock.drain();
  result.wall_ns = (trainer.config().planted_early_clock ? launched : now_ns()) - start;
  result.planted_ns = trainer.planted_wait_ns() - planted_before;
  for (const StepResult& step : steps) result.step_losses.push_back(step.loss());
  if (!evaluation) result.loss = result.step_losses.back();
  result.skipped_steps = trainer.skipped_steps() - skipped_before;
  result.steps = static_cast<int>(units.count) - discard;
  if (cuda) result.device_ns = clock.between(static_cast<std::size_t>(discard), units.count);
  for (std::size_t i = 0; i < units.count; ++i) result.sample_ns.push_back(clock.between(i, i + 1));
  return result;
}

} // namespace assay::worker
