// RMS norm of the latent. A warp handles a row.
#pragma once

#include "kernels/attention/latent.h"
#include "kernels/vectors.cuh"

namespace assay::latent {

using namespace simt;

constexpr int kThreads = 256, kWarps = kThreads / 32;

template <int kWords, bool kWhole>
__device__ __forceinline__ float inverse_rms(const Row<kWords, kWhole>& x, int width) {
  float square = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) square += x.x[i][e] * x.x[i][e];
  return inverse_root(sum_lanes<32>(square) / static_cast<float>(width) + kEps);
}

template <int kWords, bool kWhole> __global__ void __launch_bounds__(kThreads) norm_latent(Norm p) {
  const int lane = thread_index() % 32, token = block_index() * kWarps + thread_index() / 32;
  if (token >= p.tokens) return;
  Row<kWords, kWhole> x, w;
  x.read(p.down + static_cast<std::int64_t>(token) * p.stride, lane, p.rank);
  w.read(p.weight, lane, p.rank);
  const float r = inverse_rms(x, p.rank);
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) x.x[i][e] *= r * w.x[i][e];
  x.write(p.latent + static_cast<std::int64_t>(token) * p.rank, lane, p.rank);
}

template <int kWords, bool kWhole>
__global__ void __launch_bounds__(kThreads, 2) norm_latent_backward(NormBackward b) {
  alignas(16) __shared__ float sums[kWarps][kWords * 128];
  const Norm& p = b.forward;
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const float per_column = 1.F / static_cast<float>(p.rank);
  Row<kWords, kWhole> dw;
  for (int token = block_index() * kWarps + warp; token < p.tokens;
       token += block_count() * kWarps) {
    Row<kWords, kWhole> x, dy, w; // w from L1: registers are short
    x.read(p.down + static_cast<std::int64_t>(token) * p.stride, lane, p.rank);
    dy.read(b.d_latent + static_cast<std::int64_t>(token) * p.rank, lane, p.rank);
    w.read(p.weight, lane, p.rank);
    bf16* d_down = b.d_down + static_cast<std::int64_t>(token) * (p.rank + b.rope);
    const bf16* d_key = b.d_key + static_cast<std::int64_t>(token) * b.rope;
    const bool has_key = lane < b.rope / 8;
    const uint4 key = has_key ? reinterpret_cast<const uint4*>(d_key)[lane] : uint4{};
    const float r = inverse_rms(x, p.rank);
    const float along = sum_lanes<32>(norm_gradient(x, dy, w, dw, r)) * per_column;
#pragma unroll
    for (int i = 0; i < kWords; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) x.x[i][e] = r * (dy.x[i][e] - x.x[i][e] * along);
    x.write(d_down, lane, p.rank);
    if (has_key) reinterpret_cast<uint4*>(d_down + p.rank)[lane] = key;
  }
  write_row_sum(sums, dw, b.partial + static_cast<std::int64_t>(block_index()) * p.rank, p.rank);
}

} // namespace assay::latent
