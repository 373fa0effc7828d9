#include "kernels/nsa_select.h"

#include <algorithm>
#include <cmath>

namespace assay {

namespace {

constexpr unsigned kAllLanes = 0xffffffffU;
constexpr int kLanes = 32, kMostWarps = 8;
constexpr std::int64_t kMostShared = 96 << 10;
constexpr int kForcedLocal = 2; // the query's own block and the one before it

struct Best {
  float score;
  int block;
};

__device__ bool better(const Best& a, const Best& b) {
  return a.score > b.score || (a.score == b.score && a.block < b.block);
}

// The best of this lane's blocks that are not taken: block = lane + 32 s.
__device__ Best best_of_lane(const float* scores, int blocks, int lane, unsigned long long taken) {
  Best best{-1.0F, 1 << 30};
  for (int s = 0, block = lane; block < blocks; ++s, block += kLanes)
    if ((taken >> s & 1U) == 0 && scores[block] > best.score) best = {scores[block], block};
  return best;
}

// Probabilities of the visible compressed blocks, summed over the heads of the group.
__device__ void sum_heads(const SelectProblem& p, std::int64_t c, int g, int lane, float* sum) {
  const auto seen = static_cast<int>(p.end[c] - p.first[c]);
  const std::int64_t offset = p.first[c] - p.key_begin;
  for (int i = lane; i < seen; i += kLanes) sum[i] = 0;
  for (int h = 0; h < p.heads_per_group; ++h) {
    const int head = g * p.heads_per_group + h;
    const float* row = p.scores + (head * p.queries + c) * p.keys + offset;
    const float lse = p.lse[c * p.groups * p.heads_per_group + head];
    for (int i = lane; i < seen; i += kLanes) sum[i] += __expf(p.scale * row[i] - lse);
  }
  __syncwarp();
}

__global__ void select_kernel(SelectProblem p, int floats) {
  extern __shared__ float shared[];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const auto warp = static_cast<int>(threadIdx.x) / kLanes;
  const std::int64_t unit = blockIdx.x * (blockDim.x / kLanes) + warp;
  if (unit >= p.queries * p.groups) return; // whole warps leave
  const std::int64_t c = unit / p.groups;
  const auto g = static_cast<int>(unit % p.groups);
  float* sum = shared + static_cast<std::int64_t>(warp) * floats;
  float* scores = sum + p.keys;
  sum_heads(p, c, g, lane, sum);
  const auto seen = static_cast<int>(p.end[c] - p.first[c]);
  const int own = p.position[c] / p.select_block, blocks = own + 1;
  unsigned long long taken = 0; // bit s: block lane + 32 s
  int chosen = 0;
  for (int s = 0, j = lane; j < blocks; ++s, j += kLanes) {
    float score = 0; // eq. 9: pairs (m, n) with i = (l'/d) j + m - n
    for (int m = 0; m < p.compressed_per_select; ++m)
      for (int n = 0; n < p.compressed_overlap; ++n) {
        const int i = p.compressed_per_select * j + m - n;
        if (i >= 0 && i < seen) score += sum[i];
      }
    scores[j] = score;
  }
  __syncwarp();
  // The forced ones first: the document's first block, the own one and the one before it.
  for (int k = 0; k <= kForcedLocal; ++k) {
    const int j = k == 0 ? 0 : own - kForcedLocal + k;
    const bool fresh = j >= 0 && (k == 0 || j > 0) && chosen < p.count;
    if (fresh && j % kLanes == lane) taken |= 1ULL << (j / kLanes);
    if (fresh) ++chosen;
  }
  Best mine = best_of_lane(scores, blocks, lane, taken);
  for (; chosen < min(p.count, blocks); ++chosen) {
    Best best = mine;
#pragma unroll
    for (int stride = kLanes / 2; stride > 0; stride /= 2) {
      const Best other{__shfl_xor_sync(kAllLanes, best.score, stride),
                       __shfl_xor_sync(kAllLanes, best.block, stride)};
      if (better(other, best)) best = other;
    }
    if (best.block >= blocks) break; // no number among what is left
    if (best.block % kLanes == lane) {
      taken |= 1ULL << (best.block / kLanes);
      mine = best_of_lane(scores, blocks, lane, taken);
    }
  }
  std::int64_t* out = p.blocks + unit * p.count;
  int written = 0;
  for (int s = 0; s * kLanes < blocks; ++s) {
    const bool is_taken = (taken >> s & 1U) != 0;
    const unsigned all = __ballot_sync(kAllLanes, is_taken);
    if (is_taken) out[written + __popc(all & ((1U << lane) - 1))] = s * kLanes + lane;
    written += __popc(all);
  }
  for (int i = written + lane; i < p.count; i += kLanes) out[i] = -1;
}

std::int64_t warp_bytes(std::int64_t keys, std::int64_t most_blocks) {
  return (keys + most_blocks) * static_cast<std::int64_t>(sizeof(float));
}

} // namespace

bool select_fits(std::int64_t keys, std::int64_t most_blocks) {
  return most_blocks <= kMaxSelectionBlocks && warp_bytes(keys, most_blocks) <= kMostShared;
}

cudaError_t launch_nsa_select(const SelectProblem& problem, cudaStream_t stream) {
  const std::int64_t units = problem.queries * problem.groups;
  if (units == 0 || problem.count == 0) return cudaSuccess;
  if (!select_fits(problem.keys, problem.most_blocks)) return cudaErrorInvalidValue;
  const std::int64_t bytes = warp_bytes(problem.keys, problem.most_blocks);
  const auto warps = static_cast<int>(std::clamp<std::int64_t>(kMostShared / bytes, 1, kMostWarps));
  if (const cudaError_t error = cudaFuncSetAttribute(select_kernel,
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                     static_cast<int>(kMostShared));
      error != cudaSuccess)
    return error;
  const auto grid = static_cast<unsigned>((units + warps - 1) / warps);
  select_kernel<<<grid, warps * kLanes, static_cast<std::size_t>(warps * bytes), stream>>>(
      problem, static_cast<int>(bytes / static_cast<std::int64_t>(sizeof(float))));
  return cudaGetLastError();
}

} // namespace assay
