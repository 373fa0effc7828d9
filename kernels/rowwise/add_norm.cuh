// Residual sum and RMS norm. A warp handles a row, four columns to a lane and access; kWords
// accesses cover the width, and the last may be partly beyond it.
#pragma once

#include "kernels/rowwise/rows.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

constexpr int kNormThreads = 256, kNormWarps = kNormThreads / 32;
constexpr int kMostWords = 8; // of four columns and 32 lanes: 1,024 columns

template <int kWords, bool kWhole> struct Row { // a lane's share: columns 4 (lane + 32 i) ...
  float x[kWords][4] = {};
  template <class T> __device__ __forceinline__ void read(const T* row, int lane, int width) {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      if (kWhole || 4 * (lane + 32 * i) < width) load(x[i], row + 4 * (lane + 32 * i));
  }
  template <class T> __device__ __forceinline__ void write(T* row, int lane, int width) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i)
      if (kWhole || 4 * (lane + 32 * i) < width) store(row + 4 * (lane + 32 * i), x[i]);
  }
};

template <int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads) add_norm(AddNorm p) {
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

template <int kWords, bool kWhole>
__global__ void __launch_bounds__(kNormThreads, 2) add_norm_backward(AddNormBackward p) {
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
    float along = 0;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float u = x.x[i][e] * r;
        dw.x[i][e] += u * dy.x[i][e];
        x.x[i][e] = u;
        dy.x[i][e] *= w.x[i][e];
        along += u * dy.x[i][e];
      }
    along = sum_lanes<32>(along) * per_column;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[i][e] = next.x[i][e] + r * (dy.x[i][e] - x.x[i][e] * along);
    x.write(p.dx + place, lane, p.width);
    if (p.dx16 != nullptr) x.write(p.dx16 + place, lane, p.width);
  }
  dw.write(sums[warp], lane, kWords * 128);
  __syncthreads();
  for (int column = thread_index(); column < p.width; column += kNormThreads) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kNormWarps; ++i) sum += sums[i][column];
    p.partial[static_cast<std::int64_t>(block_index()) * p.width + column] = sum;
  }
}

} // namespace assay::rowwise
