// A visit: K consecutive units of one variant, timed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/data/batch.h"
#include "model/trainer.h"

namespace assay::worker {

// The prepared input of one unit: the micro-batches of a step, or the batches of an evaluation.
using UnitData = std::vector<Batch>;

struct VisitResult {
  int steps = 0;
  std::int64_t wall_ns = 0; // counted units together, host clock, device drained at both ends
  std::optional<std::int64_t> device_ns; // by CUDA events over the counted units
  std::int64_t tokens = 0;
  double loss = 0;
  std::int64_t skipped_steps = 0;
  std::vector<std::int64_t> sample_ns; // every unit, discarded ones first
};

// Runs units.size() units; the first `discard` are stored in sample_ns and not counted.
VisitResult
run_visit(Trainer& trainer, bool evaluation, const std::vector<UnitData>& units, int discard);

} // namespace assay::worker
