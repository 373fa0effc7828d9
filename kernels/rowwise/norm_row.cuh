// What norms compute of one row: those that write it in 16 bits and those that write it in FP8.
#pragma once

#include "kernels/rowwise/rows.h"
#include "kernels/vectors.cuh"

namespace assay::rowwise {

using namespace simt;

// What `row` is after it was written as bf16 and read again.
template <int kWords, bool kWhole>
__device__ __forceinline__ void round_row(Row<kWords, kWhole>& row) {
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    unpack(row.x[i], make_uint2(pack2(row.x[i][0], row.x[i][1]), pack2(row.x[i][2], row.x[i][3])));
}

template <int kWords, bool kWhole>
__device__ __forceinline__ void add(Row<kWords, kWhole>& row, const Row<kWords, kWhole>& other) {
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) row.x[i][e] += other.x[i][e];
}

// Mean over the warp's row, of which each lane holds a part and zeros beyond it.
template <int kWords, bool kWhole>
__device__ __forceinline__ float mean_of(const Row<kWords, kWhole>& row, int width) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) sum += row.x[i][e];
  return sum_lanes<32>(sum) / static_cast<float>(width);
}

// What lies beyond the row stays 0.
template <int kWords, bool kWhole>
__device__ __forceinline__ void
subtract(Row<kWords, kWhole>& row, float value, int lane, int width) {
#pragma unroll
  for (int i = 0; i < kWords; ++i)
    if (kWhole || 4 * (lane + 32 * i) < width)
#pragma unroll
      for (int e = 0; e < 4; ++e) row.x[i][e] -= value;
}

// Writes the sum and 1 / rms (and the mean) of a row; x becomes the normed row.
template <class Stream, bool kLayer, int kWords, bool kWhole>
__device__ __forceinline__ void
norm_row(Row<kWords, kWhole>& x, const AddNorm<Stream>& p, int row, int lane) {
  const std::int64_t place = static_cast<std::int64_t>(row) * p.width;
  Row<kWords, kWhole> w;
  x.read(p.x + place, lane, p.width);
  if (p.branch != nullptr) {
    Row<kWords, kWhole> branch;
    branch.read(p.branch + place, lane, p.width);
    add(x, branch);
    x.write(p.sum + place, lane, p.width);
    if constexpr (sizeof(Stream) == 2) round_row(x);
  }
  if constexpr (kLayer) {
    const float mean = mean_of(x, p.width);
    if (lane == 0) p.mean[row] = mean;
    subtract(x, mean, lane, p.width);
  }
  float square = 0;
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) square += x.x[i][e] * x.x[i][e];
  const float r = inverse_root(sum_lanes<32>(square) / static_cast<float>(p.width) +
                               (kLayer ? kLayerEps : kEps));
  if (lane == 0) p.rstd[row] = r;
  w.read(p.weight, lane, p.width);
#pragma unroll
  for (int i = 0; i < kWords; ++i)
#pragma unroll
    for (int e = 0; e < 4; ++e) x.x[i][e] *= r * w.x[i][e];
  if constexpr (kLayer) {
    w.read(p.bias, lane, p.width);
    add(x, w);
  }
}

// Of eight columns of a head of kHead, which kHead / 8 neighbouring lanes have:
// o = norm(o) * weight * silu(gate).
template <int kHead>
__device__ __forceinline__ void
gate_word(float (&o)[8], const float (&gate)[8], const float (&weight)[8]) {
  float square = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) square += o[e] * o[e];
  const float r = inverse_root(sum_lanes<kHead / 8>(square) * (1.F / kHead) + kEps);
#pragma unroll
  for (int e = 0; e < 8; ++e) o[e] *= r * weight[e] * gate[e] * sigmoid(gate[e]);
}

} // namespace assay::rowwise
