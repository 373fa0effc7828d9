// Bias and GELU in its tanh form. A warp handles 256 columns of a row, eight (16 bytes) a lane.
#pragma once

#include "kernels/rowwise/rows.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

constexpr int kGeluThreads = 256, kGeluWarps = kGeluThreads / 32, kGeluColumns = 32 * 8;

// gelu(x) = x/2 (1 + tanh z) = x s with s = sigmoid(2 z) and 2 z = a (x + b x^3).
struct Gelu {
  static constexpr float kA = 1.5957691216057308F, kB = 0.044715F; // 2 sqrt(2 / pi)
  float s, rise;                                                   // rise: of 2 z
  __device__ __forceinline__ explicit Gelu(float x)
      : s(sigmoid(kA * x * (1.F + kB * x * x))), rise(kA * (1.F + 3.F * kB * x * x)) {}
  __device__ __forceinline__ float slope(float x) const { return s + x * s * (1.F - s) * rise; }
};

__global__ void __launch_bounds__(kGeluThreads) bias_gelu(BiasGelu p) {
  const std::int64_t words_per_row = p.hidden / 8, words = p.tokens * words_per_row;
  const std::int64_t word =
      static_cast<std::int64_t>(block_index()) * kGeluThreads + thread_index();
  if (word >= words) return;
  float x[8], bias[8];
  load(x, p.in + word * 8);
  load(bias, p.bias + word % words_per_row * 8);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    x[e] += bias[e];
    x[e] *= Gelu(x[e]).s;
  }
  store(p.y + word * 8, x);
}

// Block (i, j) takes rows i kGeluWarps + warp, and on in steps of the grid, of columns j
// kGeluColumns and on.
__global__ void __launch_bounds__(kGeluThreads) bias_gelu_backward(BiasGeluBackward p) {
  alignas(16) __shared__ float sums[kGeluWarps][kGeluColumns];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int column = block_row() * kGeluColumns + 8 * lane;
  float bias[8], sum[8] = {};
  if (column < p.hidden) {
    load(bias, p.bias + column);
    for (std::int64_t row = static_cast<std::int64_t>(block_index()) * kGeluWarps + warp;
         row < p.tokens;
         row += static_cast<std::int64_t>(block_count()) * kGeluWarps) {
      const std::int64_t place = row * p.hidden + column;
      float x[8], d[8];
      load(x, p.in + place);
      load(d, p.dy + place);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        x[e] += bias[e];
        d[e] *= Gelu(x[e]).slope(x[e]);
        sum[e] += d[e];
      }
      store(p.d_in + place, d);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) sums[warp][8 * lane + e] = sum[e];
  __syncthreads();
  const int own = block_row() * kGeluColumns + thread_index();
  if (own >= p.hidden) return;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kGeluWarps; ++i) total += sums[i][thread_index()];
  p.partial[static_cast<std::int64_t>(block_index()) * p.hidden + own] = total;
}

} // namespace assay::rowwise
