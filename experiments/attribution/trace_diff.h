// The diff of two traces row by row: what ran in the baseline, in the candidate, and how long, a
// step.
#pragma once

#include <vector>

#include "experiments/attribution/tiling.h"
#include "experiments/attribution/trace_pairs.h"

namespace assay {

inline constexpr double kFalseDiscoveryRate = 0.05;
// A row is the same when its whole interval is within 2 % of the baseline's time in the row, or
// within 0.1 % of the baseline's step.
inline constexpr double kSameShareOfRow = 0.02, kSameShareOfStep = 0.001;

// Kernels, copies and sets by the device time that they own (tiling.h), largest change first.
std::vector<DiffRow> diff_device(const Trace& a,
                                 const TiledTrace& tiled_a,
                                 const Trace& b,
                                 const TiledTrace& tiled_b,
                                 const TracePairs& pairs,
                                 double step_ns);

// LibTorch operators by their own time: without the operators that they call on their thread. On
// several threads at once the times of a stage may sum to more than the stage.
std::vector<DiffRow>
diff_operators(const Trace& a, const Trace& b, const TracePairs& pairs, double step_ns);

} // namespace assay
