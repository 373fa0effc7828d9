// A visit: K consecutive units of one variant, timed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/layout/batch.h"
#include "model/training/trainer.h"

namespace assay::worker {

// The prepared input of one unit: the micro-batches of a step, or the batches of an evaluation.
using UnitData = std::vector<Batch>;

struct VisitResult {
  int steps = 0;
  std::int64_t wall_ns = 0; // counted units together, host clock, device drained at both ends,
                            // but with planted_early_clock
  std::optional<std::int64_t> device_ns; // by CUDA events over the counted units
  std::int64_t planted_ns = 0;           // of wall_ns: the wait of planted_spin
  std::int64_t tokens = 0;
  std::optional<double> loss;      // of the last unit; nothing on a rank that is not told it
  std::vector<double> step_losses; // of every train step in order; empty for evaluations
  std::int64_t skipped_steps = 0;
  std::vector<std::int64_t> sample_ns; // every unit, discarded ones first
};

// The units of a visit, in order: prepared before it, or drawn while its clock runs.
struct UnitSource {
  std::size_t count = 0;
  std::function<const UnitData&(std::size_t)> take; // called once for each, in order
};

UnitSource prepared(const std::vector<UnitData>& units); // which outlive it

// Told of every unit of a traced visit: host clock of all traces (trace_now()), on the calling
// thread.
class UnitObserver {
public:
  virtual ~UnitObserver() = default;
  virtual void unit(std::int64_t start, std::int64_t end, bool counted, std::int64_t tokens) = 0;
};

// Runs units.count units; the first `discard` are stored in sample_ns and not counted. `barrier`
// (may be empty) is called with the device drained, before the clock starts.
VisitResult run_visit(Trainer& trainer,
                      bool evaluation,
                      const UnitSource& units,
                      int discard,
                      UnitObserver* observer = nullptr,
                      const std::function<void()>& barrier = {});

} // namespace assay::worker
