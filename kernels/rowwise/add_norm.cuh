// Residual sum and RMS norm. A warp handles a row.
#pragma once

#include "kernels/rowwise/rows.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

constexpr int kNormThreads = 256, kNormWarps = kNormThreads / 32;

// What `row` is after it was written as bf16 and read again.
template <int kWords, bool kWhole>
__device__ __forceinline__ void round_row(Row<kWords, kWhole>& row) {
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    unpack(row.x[i], make_uint2(pack2(row.x[i][0], row.x[i][1]), pack2(row.x[i][2], row.x[i][3])));
}

template <class Stream, int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads) add_norm(AddNorm<Stream> p) {
  const int lane = thread_index() % 32, row = block_index() * kNormWarps + thread_index() / 32;
  if (row >= p.rows) return;
  const std::int64_t place = static_cast<std::int64_t>(row) * p.width;
  Row<kWords, kWhole> x, w;
  x.read(p.x + place, lane, p.width);
  if (p.branch != nullptr) {
    Row<kWords, kWhole> branch;
    branch.read(p.branch + place, lane, p.width);
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[i][e] += branch.x[i][e];
    x.write(p.sum + place, lane, p.width);
    if constexpr (sizeof(Stream) == 2) round_row(x);
  }
  float square = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) square += x.x[i][e] * x.x[i][e];
  const float r = inverse_root(sum_lanes<32>(square) / static_cast<float>(p.width) + kEps);
  if (lane == 0) p.rstd[row] = r;
  w.read(p.weight, lane, p.width);
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) x.x[i][e] *= r * w.x[i][e];
  x.write(p.y + place, lane, p.width);
}

template <class Stream, int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads, 2) add_norm_backward(AddNormBackward<Stream> p) {
  alignas(16) __shared__ float sums[kNormWarps][kWords * 128];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const float per_column = 1.F / static_cast<float>(p.width);
  Row<kWords, kWhole> dw;
  for (int row = block_index() * kNormWarps + warp; row < p.rows;
       row += block_count() * kNormWarps) {
    const std::int64_t place = static_cast<std::int64_t>(row) * p.width;
    Row<kWords, kWhole> x, dy, next, w; // w from L1: registers are short
    x.read(p.x + place, lane, p.width);
    dy.read(p.dy + place, lane, p.width);
    if (p.next != nullptr) next.read(p.next + place, lane, p.width);
    w.read(p.weight, lane, p.width);
    const float r = p.rstd[row];
    const float along = sum_lanes<32>(norm_gradient(x, dy, w, dw, r)) * per_column;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[i][e] = next.x[i][e] + r * (dy.x[i][e] - x.x[i][e] * along);
    x.write(p.dx + place, lane, p.width);
    if (p.dx16 != nullptr) x.write(p.dx16 + place, lane, p.width);
  }
  write_row_sum(sums, dw, p.partial + static_cast<std::int64_t>(block_index()) * p.width, p.width);
}

} // namespace assay::rowwise
