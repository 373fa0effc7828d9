// Probabilities of compressed blocks and the choice of selection blocks, a warp per query and
// group; lane = 4 r + c. Rows r and r+8 of a product are the group's heads, its columns compressed
// keys.
#pragma once

#include "kernels/nsa/select_problem.h"
#include "kernels/nsa/selected_attention/selected_fragments.cuh"

namespace assay::nsa_select {

constexpr unsigned kAll = 0xffffffffU;
constexpr int kLanes = 32;
constexpr int kForcedLocal = 2; // the query's own block and the one before it
constexpr int kKeys = 32;       // of one round of products

struct Best {
  float score;
  int block;
};

__device__ __forceinline__ bool better(const Best& a, const Best& b) {
  return a.score > b.score || (a.score == b.score && a.block < b.block);
}

// The best of this lane's blocks that are not taken: block = lane + 32 s.
__device__ __forceinline__ Best best_of_lane(const float* scores,
                                             int blocks,
                                             int lane,
                                             unsigned long long taken) {
  Best best{-1.F, 1 << 30};
  for (int s = 0, block = lane; block < blocks; ++s, block += kLanes)
    if ((taken >> s & 1U) == 0 && scores[block] > best.score) best = {scores[block], block};
  return best;
}

// x[0 … 7] of the eight lanes with this c, added up: the lane with r gets the sum of x[r].
__device__ __forceinline__ float sum_over_rows(const float (&x)[8], int r) {
  float four[4], two[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const bool high = (r & 4) != 0;
    four[i] = (high ? x[4 + i] : x[i]) + __shfl_xor_sync(kAll, high ? x[i] : x[4 + i], 16);
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const bool high = (r & 2) != 0;
    two[i] =
        (high ? four[2 + i] : four[i]) + __shfl_xor_sync(kAll, high ? four[i] : four[2 + i], 8);
  }
  const bool high = (r & 1) != 0;
  return (high ? two[1] : two[0]) + __shfl_xor_sync(kAll, high ? two[0] : two[1], 4);
}

// The group's heads of one query: rows r and r+8, and lse in powers of two. Heads that do not exist
// have an infinite one, and so no probability.
template <class T, int kWidth> struct QueryRows {
  Row<kWidth> q[2];
  float lse2[2];

  __device__ __forceinline__ QueryRows(const SelectProblem& p, int t, int group, int r, int c) {
    const int heads = p.heads / p.groups;
    const std::int64_t place = p.place[t];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool exists = r + 8 * half < heads;
      const std::int64_t head = group * heads + r + 8 * half;
      q[half].load(static_cast<const T*>(p.q) +
                       (t * static_cast<std::int64_t>(p.heads) + head) * kWidth,
                   c,
                   exists);
      lse2[half] = __builtin_huge_valf();
      if (exists && place >= 0)
        lse2[half] = p.lse[(head * p.stride + place % p.stride) * p.compressed + place / p.stride] *
                     simt::kLog2E;
    }
  }
};

// sum[i]: probability of the document's i-th compressed block, summed over the heads, i < seen.
template <class T, int kWidth>
__device__ __forceinline__ void sum_heads(const SelectProblem& p,
                                          const QueryRows<T, kWidth>& rows,
                                          std::int64_t first,
                                          int seen,
                                          int group,
                                          int lane,
                                          float* sum) {
  const int r = lane / 4, c = lane % 4;
  const bool both = p.heads / p.groups > 8;
  const float factor = p.scale * simt::kLog2E;
  for (int key = 0; key < seen; key += kKeys) {
    float part[8]; // of keys 8 j + 2 c and the next at 2 j and 2 j + 1
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
      float score[4] = {};
      Row<kWidth> keys;
      const int mine = key + 8 * j + r;
      keys.load(static_cast<const T*>(p.k) + ((first + mine) * p.groups + group) * kWidth,
                c,
                mine < seen);
      add_dots<T>(score, rows.q[0], rows.q[1], keys);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        part[2 * j + i] = simt::exp2_fast(score[i] * factor - rows.lse2[0]);
        if (both) part[2 * j + i] += simt::exp2_fast(score[2 + i] * factor - rows.lse2[1]);
      }
    }
    const float total = sum_over_rows(part, r);
    const int i = key + 8 * (r / 2) + 2 * c + r % 2;
    if (i < seen) sum[i] = total;
  }
  __syncwarp();
}

// Scores of the blocks (eq. 9): pairs (m, n) with i = (l'/d) j + m - n.
__device__ __forceinline__ void score_blocks(
    const SelectProblem& p, const float* sum, int seen, int blocks, int lane, float* scores) {
  const int per_block = p.select_block / p.stride;
  for (int j = lane; j < blocks; j += kLanes) {
    float score = 0;
    for (int m = 0; m < per_block; ++m)
      for (int n = 0; n < p.compressed_overlap; ++n) {
        const int i = per_block * j + m - n;
        if (i >= 0 && i < seen) score += sum[i];
      }
    scores[j] = score;
  }
  __syncwarp();
}

// Bit s: the lane's block lane + 32 s is chosen.
__device__ __forceinline__ unsigned long long
choose(const SelectProblem& p, const float* scores, int blocks, int lane) {
  unsigned long long taken = 0;
  int chosen = 0;
  // The forced ones first: the document's first block, the own one and the one before it.
  for (int k = 0; k <= kForcedLocal; ++k) {
    const int j = k == 0 ? 0 : blocks - 1 - kForcedLocal + k;
    const bool fresh = j >= 0 && (k == 0 || j > 0) && chosen < p.count;
    if (fresh && j % kLanes == lane) taken |= 1ULL << (j / kLanes);
    if (fresh) ++chosen;
  }
  Best mine = best_of_lane(scores, blocks, lane, taken);
  for (; chosen < p.count && chosen < blocks; ++chosen) {
    Best best = mine;
#pragma unroll
    for (int stride = kLanes / 2; stride > 0; stride /= 2) {
      const Best other{__shfl_xor_sync(kAll, best.score, stride),
                       __shfl_xor_sync(kAll, best.block, stride)};
      if (better(other, best)) best = other;
    }
    if (best.block >= blocks) break; // no number among what is left
    if (best.block % kLanes == lane) {
      taken |= 1ULL << (best.block / kLanes);
      mine = best_of_lane(scores, blocks, lane, taken);
    }
  }
  return taken;
}

__device__ __forceinline__ void write_chosen(
    const SelectProblem& p, unsigned long long taken, int blocks, int lane, std::int64_t* out) {
  int written = 0;
  for (int s = 0; s * kLanes < blocks; ++s) {
    const bool is_taken = (taken >> s & 1U) != 0;
    const unsigned all = __ballot_sync(kAll, is_taken);
    if (is_taken) out[written + __popc(all & ((1U << lane) - 1))] = s * kLanes + lane;
    written += __popc(all);
  }
  for (int i = written + lane; i < p.count; i += kLanes) out[i] = -1;
}

constexpr int kMostWarps = 8;

// `floats`: of shared memory, a warp.
template <class T, int kWidth>
__global__ void __launch_bounds__(kMostWarps* kLanes)
    select_kernel(SelectProblem p, int floats, int warps) {
  const int lane = simt::thread_index() % kLanes, warp = simt::thread_index() / kLanes;
  const std::int64_t unit = static_cast<std::int64_t>(simt::block_index()) * warps + warp;
  if (unit >= static_cast<std::int64_t>(p.tokens) * p.groups) return; // whole warps leave
  // The last tokens see most: they come first, so that the launch does not end with them.
  const int t = p.tokens - 1 - static_cast<int>(unit / p.groups),
            group = static_cast<int>(unit % p.groups);
  float* sum = reinterpret_cast<float*>(simt::shared_memory()) + warp * floats;
  float* scores = sum + p.most_keys;
  const auto seen = static_cast<int>(p.end[t] - p.first[t]);
  const QueryRows<T, kWidth> rows(p, t, group, lane / 4, lane % 4);
  sum_heads(p, rows, p.first[t], seen, group, lane, sum);
  const int blocks = p.position[t] / p.select_block + 1;
  score_blocks(p, sum, seen, blocks, lane, scores);
  const unsigned long long taken = choose(p, scores, blocks, lane);
  write_chosen(p,
               taken,
               blocks,
               lane,
               p.blocks + (static_cast<std::int64_t>(t) * p.groups + group) * p.count);
}

} // namespace assay::nsa_select
