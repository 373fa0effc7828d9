// What a comparison costs beside the time of its own unit: peak memory (from memory launches), and
// the end-to-end share of a step that an evaluation or optimizer step takes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ledger/ledger.h"
#include "experiments/evidence/effect.h"

namespace assay {

struct MemoryEffect {
  int launches = 0;
  double a_bytes = 0, b_bytes = 0; // medians over launches
  Estimate log_ratio;              // ln(bytes_B / bytes_A) by launch
  // Largest |ln(bytes_control / bytes_reference)| of a launch; none where a launch has no control.
  std::optional<double> noise;
  // The allocator's figure repeats: the control needed its reference's bytes in every launch (or
  // three launches without controls agree), and all launches gave the same ratio.
  bool exact = false;
};
// Interval of log_ratio: itself if exact; of one launch, the noise on both sides, none without it;
// of several the t interval.
std::optional<MemoryEffect>
memory_effect(const CellView& cell, const VariantRow& a, const VariantRow& b, double judged_alpha);

// Change of training time when the unit runs as often as in the cell's config:
// share = (t_B - t_A) / (every * step_ns + t_A), `every` = eval_interval.
struct EndToEnd {
  double step_ns = 0; // train step beside the unit
  double every = 1;   // steps between two units
  Estimate log_ratio; // ln(1 + share) by launch
};
// Nothing for a cell whose unit is the train step, or when no step time is known.
std::optional<EndToEnd>
end_to_end(const CellView& cell, const PairSet& pairs, const Effect& effect, double judged_alpha);

} // namespace assay
