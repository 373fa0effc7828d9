// dK and dV of selected attention: a thread block takes a key block, 16 keys a warp, and walks the
// queries that selected it in tiles of 16 rows (one query of up to 16 heads, two of up to 8 or four
// of up to 4). Asynchronous copies bring each tile's q, dO, lse and delta into shared memory once
// for all warps, kStages - 1 tiles ahead. The sums are those of selected_attention_backward.cu.
#pragma once

#include "kernels/nsa/selected_attention/selected_fragments.cuh"
#include "kernels/nsa/selected_attention/selected_problem.h"

namespace assay {

constexpr int kTileRows = 16, kStages = 4;

// The rows of one tile; 16-byte words of a row are swapped so that eight rows of one column lie in
// different banks.
template <class T, int kWidth> struct Stage {
  static constexpr int kWords = kWidth / 8; // of a row
  alignas(16) T q[kTileRows][kWidth];
  alignas(16) T grad[kTileRows][kWidth];
  float lse[kTileRows], delta[kTileRows];

  static __device__ __forceinline__ int column(int row, int word) { return 8 * (word ^ (row & 7)); }
};

// The queries of one item, and the copies of their rows.
template <class T, int kWidth, int kQueries> struct TileSource {
  static constexpr int kHeadRows = kTileRows / kQueries; // of a query; the last ones may be empty

  const SelectedProblem& problem;
  const SelectedGradients& gradients;
  const int* queries; // in shared memory
  int count, group, heads;

  __device__ __forceinline__ bool exists(int tile, int row) const {
    return tile * kQueries + row / kHeadRows < count && row % kHeadRows < heads;
  }
  // Of q, grad_out, lse and delta.
  __device__ __forceinline__ std::int64_t line(int tile, int row) const {
    const int query = queries[tile * kQueries + row / kHeadRows];
    return static_cast<std::int64_t>(query) * problem.heads + group * heads + row % kHeadRows;
  }
  // What does not exist is zero: it adds nothing to either sum.
  __device__ __forceinline__ void copy(Stage<T, kWidth>& to, int tile, int thread, int threads) {
    constexpr int kWords = kWidth / 8, kAll = kTileRows * kWords;
    for (int i = thread; i < 2 * kAll; i += threads) {
      const int row = i % kAll / kWords, word = i % kWords;
      const bool there = exists(tile, row);
      const std::int64_t from = there ? line(tile, row) * kWidth + 8 * word : 0;
      const int column = Stage<T, kWidth>::column(row, word);
      if (i < kAll)
        simt::copy16(&to.q[row][column], static_cast<const T*>(problem.q) + from, there);
      else
        simt::copy16(
            &to.grad[row][column], static_cast<const T*>(gradients.grad_out) + from, there);
    }
    if (thread >= 2 * kTileRows) return;
    const int row = thread % kTileRows;
    const bool there = exists(tile, row);
    const std::int64_t from = there ? line(tile, row) : 0;
    if (thread < kTileRows)
      simt::copy4(&to.lse[row], gradients.lse + from, there);
    else
      simt::copy4(&to.delta[row], gradients.delta + from, there);
  }
};

// 16 keys of one warp: rows r and r+8 of what it adds up.
template <class T, int kWidth> struct KeyTile {
  static constexpr int kSteps = kWidth / 16, kColumns = kWidth / 8;
  std::uint32_t k[kSteps][4], v[kSteps][4];
  float grad_k[kColumns][4], grad_v[kColumns][4]; // columns 8 n + 2 c, 8 n + 2 c + 1

  // `key`: the warp's first.
  __device__ __forceinline__ void
  load(const SelectedProblem& problem, int key, int group, int r, int c) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool exists = key + r + 8 * half < problem.tokens;
      const std::int64_t at =
          (static_cast<std::int64_t>(key + r + 8 * half) * problem.groups + group) * kWidth + 2 * c;
#pragma unroll
      for (int s = 0; s < kSteps; ++s)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::int64_t from = at + 16 * s + 8 * i;
          k[s][half + 2 * i] = exists ? word(problem.k, from) : 0;
          v[s][half + 2 * i] = exists ? word(problem.v, from) : 0;
        }
    }
#pragma unroll
    for (int n = 0; n < kColumns; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) grad_k[n][i] = grad_v[n][i] = 0;
  }
  static __device__ __forceinline__ std::uint32_t word(const void* base, std::int64_t element) {
    return *reinterpret_cast<const std::uint32_t*>(static_cast<const T*>(base) + element);
  }

  // Scores of the keys with a tile's rows: rows 8 j … 8 j + 7 in score[j].
  static __device__ __forceinline__ void add_dots(float (&score)[2][4],
                                                  const std::uint32_t (&keys)[kSteps][4],
                                                  const T (&rows)[kTileRows][kWidth],
                                                  int lane) {
    const int row = lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      std::uint32_t b[4];
      simt::ldmatrix(b, &rows[row][Stage<T, kWidth>::column(row, 2 * s + lane / 8 % 2)]);
      multiply<T>(score[0], keys[s], b[0], b[1]);
      multiply<T>(score[1], keys[s], b[2], b[3]);
    }
  }
  static __device__ __forceinline__ void add_rows(float (&sum)[kColumns][4],
                                                  const Weights<T>& weights,
                                                  const T (&rows)[kTileRows][kWidth],
                                                  int lane) {
    const int row = lane % 16;
#pragma unroll
    for (int n = 0; n < kColumns; n += 2) {
      std::uint32_t b[4];
      simt::ldmatrix_t(b, &rows[row][Stage<T, kWidth>::column(row, n + lane / 16)]);
      multiply<T>(sum[n], weights.a, b[0], b[1]);
      multiply<T>(sum[n + 1], weights.a, b[2], b[3]);
    }
  }

  // `visible[j]`: how many of the 16 keys the query of this lane's rows of score[j] sees.
  __device__ __forceinline__ void
  add(const Stage<T, kWidth>& tile, const int (&visible)[2], float scale, int lane) {
    const int r = lane / 4, c = lane % 4;
    const float factor = scale * simt::kLog2E;
    float weight[2][4] = {}, grad_score[2][4] = {};
    add_dots(weight, k, tile.q, lane);
    add_dots(grad_score, v, tile.grad, lane);
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 8 * j + 2 * c + (i & 1);
        const float lse2 = tile.lse[row] * simt::kLog2E;
        const bool sees = r + 8 * (i / 2) < visible[j];
        weight[j][i] = sees ? simt::exp2_fast(weight[j][i] * factor - lse2) : 0.F;
        grad_score[j][i] = weight[j][i] * (grad_score[j][i] - tile.delta[row]);
      }
    add_rows(grad_v, Weights<T>(weight[0], weight[1]), tile.grad, lane);
    add_rows(grad_k, Weights<T>(grad_score[0], grad_score[1]), tile.q, lane);
  }

  // Adds row r+8 of odd lanes and row r of even ones, four neighbouring columns each: lanes of a
  // pair give each other what the other one adds. Every lane of the warp calls it.
  static __device__ __forceinline__ void add_to(const float (&sum)[kColumns][4],
                                                float* gradient, // of the lane's row
                                                bool exists,
                                                float factor,
                                                int c) {
    const bool odd = c % 2 != 0;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) {
      const float give[2] = {odd ? sum[n][0] : sum[n][2], odd ? sum[n][1] : sum[n][3]};
      float other[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) other[i] = __shfl_xor_sync(0xffffffffU, give[i], 1) * factor;
      const float own[2] = {(odd ? sum[n][2] : sum[n][0]) * factor,
                            (odd ? sum[n][3] : sum[n][1]) * factor};
      if (!exists) continue;
      float* to = gradient + 8 * n + c / 2 * 4;
      if (odd)
        simt::add4(to, other[0], other[1], own[0], own[1]);
      else
        simt::add4(to, own[0], own[1], other[0], other[1]);
    }
  }
};

// The first place whose end is beyond `item`.
__device__ inline int place_of(const std::int32_t* item_end, int places, int item) {
  int low = 0, high = places - 1;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (item_end[middle] > item)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// One item, from the queries index.queries[begin, end) of the key block at `place`.
template <class T, int kWidth, int kQueries>
__device__ __forceinline__ void add_item(const SelectedProblem& problem,
                                         const SelectedGradients& gradients,
                                         Stage<T, kWidth> (&stages)[kStages],
                                         const int (&queries)[kQueriesPerItem],
                                         int count,
                                         int place,
                                         int threads) {
  const int thread = simt::thread_index(), lane = thread % 32, r = lane / 4, c = lane % 4;
  const int group = place / problem.tokens, key = place % problem.tokens + thread / 32 * 16;
  TileSource<T, kWidth, kQueries> source{
      problem, gradients, queries, count, group, problem.heads / problem.groups};
  const int tiles = (count + kQueries - 1) / kQueries;
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) {
    if (i < tiles) source.copy(stages[i], i, thread, threads);
    simt::copies_commit();
  }
  KeyTile<T, kWidth> keys;
  keys.load(problem, key, group, r, c);
  for (int tile = 0; tile < tiles; ++tile) {
    simt::copies_wait<kStages - 2>();
    __syncthreads(); // this tile is there, and nobody reads the one before it
    const int next = tile + kStages - 1;
    if (next < tiles) source.copy(stages[next % kStages], next, thread, threads);
    simt::copies_commit();
    int visible[2];
    bool any = false; // the same for the whole warp
#pragma unroll
    for (int i = 0; i < kQueries; ++i)
      any = any || (tile * kQueries + i < count && key <= queries[tile * kQueries + i]);
    if (!any) continue;
#pragma unroll
    for (int j = 0; j < 2; ++j) { // queries beyond the last: their rows are zeros
      const int query = tile * kQueries + (8 * j + 2 * c) / (kTileRows / kQueries);
      visible[j] = query < count ? queries[query] + 1 - key : 0;
    }
    keys.add(stages[tile % kStages], visible, problem.scale, lane);
  }
  const int row = key + r + c % 2 * 8;
  const bool exists = row < problem.tokens;
  const std::int64_t at = (static_cast<std::int64_t>(row) * problem.groups + group) * kWidth;
  keys.add_to(keys.grad_k, gradients.grad_k + at, exists, problem.scale, c);
  keys.add_to(keys.grad_v, gradients.grad_v + at, exists, 1.F, c);
}

// kMaxThreads only bounds what the compiler may use; `threads` of a block has a warp per 16 keys.
template <class T, int kWidth, int kQueries, int kMaxThreads>
__global__ void __launch_bounds__(kMaxThreads, kMaxThreads == 128 && kWidth == 64 ? 3 : 1)
    key_gradient_kernel(SelectedProblem problem, SelectedGradients gradients, SelectedIndex index) {
  __shared__ Stage<T, kWidth> stages[kStages];
  __shared__ int queries[kQueriesPerItem];
  const int places = problem.groups * problem.tokens, threads = problem.block_size * 2;
  const int items = index.item_end[places - 1];
  for (int item = simt::block_index(); item < items; item += simt::block_count()) {
    const int place = place_of(index.item_end, places, item);
    const int before = place > 0 ? index.item_end[place - 1] : 0;
    const int begin =
        (place > 0 ? index.query_end[place - 1] : 0) + (item - before) * kQueriesPerItem;
    const int left = index.query_end[place] - begin,
              count = left < kQueriesPerItem ? left : kQueriesPerItem;
    __syncthreads(); // the item before is done with queries and stages
    for (int i = simt::thread_index(); i < count; i += threads)
      queries[i] = index.queries[begin + i];
    __syncthreads();
    add_item<T, kWidth, kQueries>(problem, gradients, stages, queries, count, place, threads);
  }
}

} // namespace assay
