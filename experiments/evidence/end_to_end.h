// The end-to-end share of a step that an evaluation or optimizer step takes.
#pragma once

#include <optional>

#include "core/ledger/ledger.h"
#include "experiments/evidence/effect.h"

namespace assay {

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
