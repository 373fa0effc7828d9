// Vectors of 4 and 8 elements in one access, rotary pairs, rows of a warp, sums over lanes, and the
// sigmoid: what kernels share that work on neighbouring columns.
#pragma once

#include <type_traits>

#include "kernels/simt.cuh"

namespace assay::simt {

constexpr float kLog2E = 1.4426950408889634F;

__device__ __forceinline__ float sigmoid(float x) {
  return reciprocal(1.F + exp2_fast(-kLog2E * x));
}

// Sum over groups of kLanes neighbouring lanes.
template <int kLanes> __device__ __forceinline__ float sum_lanes(float x) {
#pragma unroll
  for (int d = kLanes / 2; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffU, x, d);
  return x;
}

__device__ __forceinline__ void load(float (&x)[4], const float* from) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  x[0] = v.x, x[1] = v.y, x[2] = v.z, x[3] = v.w;
}
__device__ __forceinline__ void unpack(float (&x)[4], uint2 v) {
  const float2 a = unpack2(v.x), b = unpack2(v.y);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y;
}
__device__ __forceinline__ void load(float (&x)[4], const bf16* from) {
  unpack(x, *reinterpret_cast<const uint2*>(from));
}
__device__ __forceinline__ void unpack(float (&x)[8], uint4 v) {
  const float2 a = unpack2(v.x), b = unpack2(v.y), c = unpack2(v.z), d = unpack2(v.w);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y, x[4] = c.x, x[5] = c.y, x[6] = d.x, x[7] = d.y;
}
__device__ __forceinline__ void load(float (&x)[8], const bf16* from) {
  unpack(x, *reinterpret_cast<const uint4*>(from));
}
__device__ __forceinline__ void load(float (&x)[8], const float* from) {
  const float4 a = *reinterpret_cast<const float4*>(from),
               b = *reinterpret_cast<const float4*>(from + 4);
  x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w, x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
__device__ __forceinline__ void store(float* to, const float (&x)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(x[0], x[1], x[2], x[3]);
}
__device__ __forceinline__ void store(bf16* to, const float (&x)[4]) {
  *reinterpret_cast<uint2*>(to) = make_uint2(pack2(x[0], x[1]), pack2(x[2], x[3]));
}
__device__ __forceinline__ void store(bf16* to, const float (&x)[8]) {
  *reinterpret_cast<uint4*>(to) =
      make_uint4(pack2(x[0], x[1]), pack2(x[2], x[3]), pack2(x[4], x[5]), pack2(x[6], x[7]));
}

__device__ __forceinline__ void copy8(bf16* to, const bf16* from) {
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}

// Four pairs by the angles from `pair` on; sign -1: back.
__device__ __forceinline__ void
rotate(float (&x)[8], const float* cos, const float* sin, int pair, float sign) {
  float c[4], s[4];
  load(c, cos + pair);
  load(s, sin + pair);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = a * c[i] - sign * b * s[i];
    x[2 * i + 1] = b * c[i] + sign * a * s[i];
  }
}

// A warp's row: a lane's share is columns 4 (lane + 32 i) … + 3; kWords accesses cover the width,
// and the last may be partly beyond it (kWhole: it is not).
constexpr int kMostWords = 8; // of four columns and 32 lanes: 1,024 columns

template <int kWords, bool kWhole> struct Row {
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

// Backward of y = w u with u = x r: adds u dy to dw, leaves u in x and w dy in dy, and returns the
// lane's part of the sum of u w dy.
template <int kWords, bool kWhole>
__device__ __forceinline__ float norm_gradient(Row<kWords, kWhole>& x,
                                               Row<kWords, kWhole>& dy,
                                               const Row<kWords, kWhole>& w,
                                               Row<kWords, kWhole>& dw,
                                               float r) {
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
  return along;
}

// Writes the sum of the rows of a block's warps. `sums`: of the block, a row per warp.
template <int kWarps, int kWords, bool kWhole>
__device__ __forceinline__ void write_row_sum(float (&sums)[kWarps][kWords * 128],
                                              const Row<kWords, kWhole>& row,
                                              float* to,
                                              int width) {
  row.write(sums[thread_index() / 32], thread_index() % 32, kWords * 128);
  __syncthreads();
  for (int column = thread_index(); column < width; column += 32 * kWarps) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += sums[i][column];
    to[column] = sum;
  }
}

// Calls `body` with the smallest kWords whose rows hold `width` columns, and whether they just do.
template <int kWords = 1, class Body> void with_words(int width, Body body) {
  if (width == kWords * 128)
    body(std::integral_constant<int, kWords>(), std::true_type());
  else if (width < kWords * 128)
    body(std::integral_constant<int, kWords>(), std::false_type());
  else if constexpr (kWords < kMostWords)
    with_words<kWords + 1>(width, body);
}

} // namespace assay::simt
