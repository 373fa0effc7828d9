// Sums over rows: gradients of biases. A warp handles 256 columns of a row, eight (16 bytes) a
// lane.
#pragma once

#include "kernels/rowwise/rows.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

constexpr int kColumnThreads = 32 * kColumnWarps;
constexpr int kPartWarps = 16, kPartThreads = 32 * kPartWarps; // of the second kernel

// Block (i, j) takes rows i kColumnWarps + warp, and on in steps of the grid, of columns j kColumns
// and on. Several rows a turn, so that enough reads are under way: behind the last row its first
// row is read again, since a read under a condition would wait for the one before.
__global__ void __launch_bounds__(kColumnThreads) column_sum(ColumnSum p) {
  __shared__ float sums[kColumnWarps][kColumns];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int column = block_row() * kColumns + 8 * lane;
  const std::int64_t step = static_cast<std::int64_t>(p.parts) * kColumnWarps;
  float sum[8] = {};
  if (column < p.width)
    for (std::int64_t row = static_cast<std::int64_t>(block_index()) * kColumnWarps + warp;
         row < p.rows;
         row += kColumnRows * step) {
      uint4 words[kColumnRows];
#pragma unroll
      for (int i = 0; i < kColumnRows; ++i) {
        const std::int64_t at = row + i * step, given = at < p.rows ? at : row;
        words[i] = *reinterpret_cast<const uint4*>(p.x + given * p.width + column);
      }
#pragma unroll
      for (int i = 0; i < kColumnRows; ++i) {
        float x[8];
        unpack(x, words[i]);
#pragma unroll
        for (int e = 0; e < 8; ++e) sum[e] += row + i * step < p.rows ? x[e] : 0.F;
      }
    }
#pragma unroll
  for (int e = 0; e < 8; ++e) sums[warp][8 * lane + e] = sum[e];
  __syncthreads();
  const int own = block_row() * kColumns + thread_index();
  if (own >= p.width) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kColumnWarps; ++i) total += sums[i][thread_index()];
  p.partial[static_cast<std::int64_t>(block_index()) * p.width + own] = total;
}

// A block takes 32 columns, a warp every sixteenth part of them.
__global__ void __launch_bounds__(kPartThreads) column_sum_of_parts(ColumnSum p) {
  __shared__ float sums[kPartWarps][32];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int column = block_index() * 32 + lane;
  float sum = 0;
  if (column < p.width) {
#pragma unroll 4
    for (int part = warp; part < p.parts; part += kPartWarps)
      sum += p.partial[static_cast<std::int64_t>(part) * p.width + column];
  }
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= p.width) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kPartWarps; ++i) total += sums[i][lane];
  p.sum[column] = total;
}

} // namespace assay::rowwise
