#include "model/gates/code_path.h"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "model/ddp/process_group.h"

namespace assay {

namespace {

class Recorder : public SpanSink {
public:
  void begin(const char* name) override {
    const std::lock_guard lock(mutex_);
    ++seen_.spans[name];
  }
  void end(const char*) override {}
  void count(const char* name, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    seen_.counters[name] += amount;
  }
  void operation(const char* name) {
    const std::lock_guard lock(mutex_);
    ++seen_.operators[name];
  }
  CodePath take() { return std::move(seen_); }

private:
  std::mutex mutex_;
  CodePath seen_;
};

// The callback is a plain function: it finds its recorder here. One instrumentation at a time.
std::atomic<Recorder*> active_recorder{nullptr};

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  if (Recorder* recorder = active_recorder.load()) recorder->operation(function.name());
  return nullptr;
}

class OperatorGuard {
public:
  explicit OperatorGuard(Recorder& recorder) {
    active_recorder = &recorder;
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(on_operator).scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorGuard() {
    at::removeCallback(handle_);
    active_recorder = nullptr;
  }
  OperatorGuard(const OperatorGuard&) = delete;
  OperatorGuard& operator=(const OperatorGuard&) = delete;

private:
  at::CallbackHandle handle_;
};

} // namespace

std::vector<Batch>
micro_batches(const std::vector<Batch>& batches, std::int64_t accumulate, std::size_t index) {
  std::vector<Batch> unit;
  for (std::size_t i = 0; i < static_cast<std::size_t>(accumulate); ++i)
    unit.push_back(batches[(index * static_cast<std::size_t>(accumulate) + i) % batches.size()]);
  return unit;
}

double run_unit(Trainer& trainer, Unit unit, const std::vector<Batch>& batches) {
  if (unit == Unit::Evaluation) return trainer.evaluate(batches).nats_per_token;
  return trainer.step(micro_batches(batches, trainer.config().accumulate, 0)).loss();
}

CodePath record_code_path(const Optimization& optimization,
                          const TrainConfig& config,
                          const std::vector<Batch>& batches,
                          const std::shared_ptr<ProcessGroup>& ranks,
                          const std::function<void()>& load) {
  Trainer trainer(config, ranks);
  for (std::int64_t i = 0; i < trainer.warm_up_steps(); ++i)
    (void)trainer.step(micro_batches(batches, config.accumulate, 0));
  Recorder recorder;
  {
    std::optional<ProcessGroup::Rehearsal> rehearsal;
    if (ranks && config.validation_ranks == ValidationRanks::SeedBarrier &&
        optimization.unit == Unit::Evaluation)
      rehearsal.emplace(*ranks);
    const SpanSinkGuard spans(recorder);
    const OperatorGuard operators(recorder);
    (void)run_unit(trainer, optimization.unit, batches);
    if (load) load();
  }
  return recorder.take();
}

} // namespace assay
