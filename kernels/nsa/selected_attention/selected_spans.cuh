// What a query selected, as one [start, end) a lane, whichever form it came in.
#pragma once

#include <limits>

#include "kernels/nsa/selected_attention/selected_attention.h"

namespace assay {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Spans {
  int start, end; // absolute tokens of this lane's span; end <= t + 1; empty: start >= end
};

// All lanes of a warp call it together. Blocks that repeat count once.
__device__ inline Spans selected_spans(const SelectedProblem& problem, int t, int group, int lane) {
  const int origin = problem.document_start[t], position = t - origin;
  const std::int64_t slot =
      (static_cast<std::int64_t>(t) * problem.groups + group) * problem.selected + lane;
  const bool mine = lane < problem.selected;
  if (problem.ranges != nullptr) {
    if (!mine) return {0, 0};
    const int start = max(problem.ranges[2 * slot], 0);
    return {origin + start, origin + min(problem.ranges[2 * slot + 1], position + 1)};
  }
  const long long block = mine ? problem.blocks[slot] : -1;
  const bool first = __ffs(static_cast<int>(__match_any_sync(kAllLanes, block))) - 1 == lane;
  if (!first || block < 0 || block > position / problem.block_size) return {0, 0};
  const int start = static_cast<int>(block) * problem.block_size;
  return {origin + start, origin + min(start + problem.block_size, position + 1)};
}

// Calls visit(key, end) for tiles of kKeys tokens over all lanes' spans; the tile's keys >= end do
// not belong to it. Uniform over the warp.
template <int kKeys, class Visit> __device__ void for_each_tile(const Spans& spans, Visit&& visit) {
  for (unsigned left = __ballot_sync(kAllLanes, spans.start < spans.end); left != 0;
       left &= left - 1) {
    const int source = __ffs(static_cast<int>(left)) - 1;
    const int start = __shfl_sync(kAllLanes, spans.start, source);
    const int end = __shfl_sync(kAllLanes, spans.end, source);
    for (int key = start; key < end; key += kKeys) visit(key, end);
  }
}

// The last tokens select most: they come first, so that the launch does not end with them.
__device__ inline int token_of(const SelectedProblem& problem, std::int64_t unit) {
  return problem.tokens - 1 - static_cast<int>(unit / problem.groups);
}

} // namespace assay
