// The planted slow-down of the engine's own tests: after each step, a busy wait of a given share of
// the running median of the step's own duration.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "model/config/train_config.h"

namespace assay {

class PlantedSpin {
public:
  explicit PlantedSpin(const TrainConfig& config);
  ~PlantedSpin();

  void begin(); // at the start of a step
  void end(); // after its work: waits on the CPU, or enqueues the wait on the GPU's current stream

private:
  struct Events; // CUDA events of steps whose duration is not known yet
  void remember(std::int64_t duration_ns);
  std::int64_t wait_ns() const;
  void collect_finished();

  double share_;
  bool cuda_;
  std::int64_t begin_ns_ = 0;
  std::deque<std::int64_t> durations_ns_; // the last kWindow, the wait not included
  std::unique_ptr<Events> events_;
};

} // namespace assay
