// Residual sum and norm: RMS norm, or layer norm (kLayer). A warp handles a row.
#pragma once

#include "kernels/largest.cuh"
#include "kernels/rowwise/norm_row.cuh"

namespace assay::rowwise {

constexpr int kNormThreads = 256, kNormWarps = kNormThreads / 32;

// Zeros beyond the row do not count.
template <int kWords, bool kWhole>
__device__ __forceinline__ void add_row(int& largest, const Row<kWords, kWhole>& row) {
#pragma unroll
  for (int i = 0; i < kWords; ++i) add_largest(largest, row.x[i]);
}

template <class Stream, bool kLayer, int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads) add_norm(AddNorm<Stream> p) {
  const int lane = thread_index() % 32, row = block_index() * kNormWarps + thread_index() / 32;
  if (row >= p.rows) return;
  Row<kWords, kWhole> x;
  norm_row<Stream, kLayer>(x, p, row, lane);
  x.write(p.y + static_cast<std::int64_t>(row) * p.width, lane, p.width);
  if (p.amax == nullptr) return;
  int largest = 0;
  add_row(largest, x);
  raise_to_rounded<1>(p.amax, largest);
}

template <class Stream, bool kLayer, int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads, 2) add_norm_backward(AddNormBackward<Stream> p) {
  alignas(16) __shared__ float sums[kNormWarps][kWords * 128];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const float per_column = 1.F / static_cast<float>(p.width);
  __shared__ int largest_of[kNormThreads]; // of each thread: registers are short
  largest_of[thread_index()] = 0;
  Row<kWords, kWhole> dw, db; // db: of a layer norm
  for (int row = block_index() * kNormWarps + warp; row < p.rows;
       row += block_count() * kNormWarps) {
    const std::int64_t place = static_cast<std::int64_t>(row) * p.width;
    Row<kWords, kWhole> x, dy, next, w; // w from L1: registers are short
    x.read(p.x + place, lane, p.width);
    dy.read(p.dy + place, lane, p.width);
    if constexpr (kLayer) {
      subtract(x, p.mean[row], lane, p.width);
      add(db, dy);
    } else if (p.next != nullptr) {
      next.read(p.next + place, lane, p.width);
    }
    w.read(p.weight, lane, p.width);
    const float r = p.rstd[row];
    const float along = sum_lanes<32>(norm_gradient(x, dy, w, dw, r)) * per_column;
    if constexpr (kLayer) {
      subtract(dy, mean_of(dy, p.width), lane, p.width);
      if (p.next != nullptr) next.read(p.next + place, lane, p.width); // late: db takes registers
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[i][e] = next.x[i][e] + r * (dy.x[i][e] - x.x[i][e] * along);
    x.write(p.dx + place, lane, p.width);
    if (p.dx16 != nullptr) x.write(p.dx16 + place, lane, p.width);
    if (p.amax != nullptr) add_row(largest_of[thread_index()], x);
  }
  if (p.amax != nullptr) raise_to_rounded<1>(p.amax, largest_of[thread_index()]);
  float* to = p.partial + static_cast<std::int64_t>(block_index()) * p.width;
  write_row_sum(sums, dw, to, p.width);
  if constexpr (kLayer) {
    __syncthreads(); // before `sums` is written again
    write_row_sum(sums, db, to + static_cast<std::int64_t>(block_count()) * p.width, p.width);
  }
}

} // namespace assay::rowwise
