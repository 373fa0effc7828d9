// Vectors of 4 and 8 elements in one access, sums over lanes, and the sigmoid: what kernels share
// that work on neighbouring columns.
#pragma once

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

} // namespace assay::simt
