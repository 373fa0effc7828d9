#include "kernels/nsa/ranges.h"

#include <climits>

namespace assay {

namespace {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kWarps = 8;
constexpr int kUnused = INT_MAX;

// Bitonic sort of one value a lane, ascending.
__device__ int sort_lanes(int value, int lane) {
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int other = __shfl_xor_sync(kAllLanes, value, stride);
      const bool ascending = (lane & size) == 0, lower = (lane & stride) == 0;
      value = ascending == lower ? min(value, other) : max(value, other);
    }
  }
  return value;
}

// After the sort a run begins where the index is not the lane before's or its successor, and ends
// where the next lane's is not.
__global__ void ranges_kernel(RangesProblem problem) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (unit >= problem.rows * problem.tokens * problem.groups) return; // whole warps leave
  const std::int64_t query = unit / problem.groups;
  const int t = problem.positions != nullptr ? problem.positions[query]
                                             : static_cast<int>(query % problem.tokens);
  const std::int64_t slot = unit * problem.selected + lane;
  const bool mine = lane < problem.selected;
  const std::int64_t block = mine ? problem.blocks[slot] : -1;
  const bool visible = t >= 0 && block >= 0 && block <= t / problem.block_size;
  const int id = sort_lanes(visible ? static_cast<int>(block) : kUnused, lane);
  const int before = __shfl_up_sync(kAllLanes, id, 1), after = __shfl_down_sync(kAllLanes, id, 1);
  const bool used = id != kUnused;
  const bool begins = used && (lane == 0 || id - before > 1);
  const bool ends = used && (lane == 31 || after - id > 1);
  const unsigned starts = __ballot_sync(kAllLanes, begins);
  std::int32_t* out = problem.ranges + unit * problem.selected * 2;
  const int run = __popc(starts & (kAllLanes >> (31 - lane))) - 1; // of this lane
  if (begins) out[2 * run] = id * problem.block_size;
  if (ends) out[2 * run + 1] = min(t, id * problem.block_size + problem.block_size - 1) + 1;
  if (mine && lane >= __popc(starts)) out[2 * lane] = out[2 * lane + 1] = 0;
}

} // namespace

void launch_nsa_ranges(const RangesProblem& problem, cudaStream_t stream) {
  const std::int64_t units = problem.rows * problem.tokens * problem.groups;
  if (units == 0 || problem.selected == 0) return;
  const auto grid = static_cast<unsigned>((units + kWarps - 1) / kWarps);
  ranges_kernel<<<grid, kWarps * 32, 0, stream>>>(problem);
}

} // namespace assay
