// Rank times: how long a step takes on each rank of a cell that several ranks train, and how much
// of it the rank only waits for the others (exposed communication). Every rank leaves a collective
// with the slowest one, so that the ranks' steps take about the same time; the rank that waits
// least is the one that the others wait for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/trace/trace.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

struct TracedWait { // of one rank, means over the counted steps of its trace
  double step_ns = 0;
  double exposed_ns = 0;        // collectives that no computation hides
  std::vector<double> by_round; // exposed_ns of each round's steps
};

struct RankTime {
  double step_ns = 0; // by the rank's own clock: median over launches, warm-up included
  std::optional<TracedWait> traced; // nothing without a usable trace of this rank
};
using RankTimes = std::vector<RankTime>; // by rank; empty where one process trains

// From the timed launches; nothing is traced yet. Empty unless at least two ranks reported their
// times.
RankTimes rank_times(const CellView& cell, const VariantRow& variant);

// Nothing when no step counts or a check of the audit failed.
std::optional<TracedWait> traced_wait(const Trace& trace);

struct Comparison;
// "exposed communication per step: last 310 us (3.10 %) on rank 1, which the others wait for, to
// 1.2 ms (12.1 %) on rank 0; …" for baseline, then candidate. That the others wait for a rank is
// printed where the 95 % interval of the difference over rounds excludes 0. Without
// traces the slowest rank by its own clock; "" where one process trains. ASCII only.
std::string ranks_text(const Comparison& comparison);

// "collectives a step, by their kernels: ring 14 x AllReduce_Sum_f32_RING_LL; tree 14 x …": which
// algorithm NCCL ran, from the traces of rank 0. "" without such kernels.
std::string collectives_text(const Comparison& comparison);

} // namespace assay
