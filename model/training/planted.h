// What the tests of the engine and of attribution plant into a training step: a busy wait of a
// share of the step, 1 ms more in one stage, or memory.
#pragma once

#include <cstdint>
#include <memory>

#include "model/config/train_config.h"

namespace assay {

// Steps after which the wait's length follows the running median of this many steps.
inline constexpr int kSettledSteps = 31;

// Called by the trainer inside the spans of a step.
class StepHooks {
public:
  StepHooks() = default;
  virtual ~StepHooks() = default;
  StepHooks(const StepHooks&) = delete;
  StepHooks& operator=(const StepHooks&) = delete;

  virtual void begin() = 0;                  // of the step
  virtual void before_forward() = 0;         // inside the forward span
  virtual void after(PlantedWait stage) = 0; // before the stage's span closes
  virtual void end() = 0;                    // of the step
  // What the waits at the ends of all steps took so far: measured on the CPU, asked for on a GPU.
  virtual std::int64_t waited_ns() const = 0;
};

// Null where the configuration plants nothing, as in every measurement of an optimization.
std::unique_ptr<StepHooks> planted_hooks(const TrainConfig& config);

} // namespace assay
