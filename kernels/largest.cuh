// The largest magnitude of what a kernel reads or writes, as the bits of a non-negative float: they
// grow with its value, and a NaN's are above infinity's.
#pragma once

#include "kernels/vectors.cuh"

namespace assay::simt {

#ifndef ASSAY_EMULATED_CUDA
__device__ __forceinline__ int bits_of(float x) {
  return __float_as_int(x);
}
__device__ __forceinline__ float float_of(int bits) {
  return __int_as_float(bits);
}
#endif

template <int kCount>
__device__ __forceinline__ void add_largest(int& largest, const float (&x)[kCount]) {
#pragma unroll
  for (int e = 0; e < kCount; ++e) {
    const int bits = bits_of(fabsf(x[e]));
    largest = bits > largest ? bits : largest;
  }
}

// Raises *to to the largest of a block of kWarps, or with kWarps = 1 of every warp by itself.
// Called by all threads. A value that was read too early only costs an atomic operation.
template <int kWarps> __device__ __forceinline__ void raise_to(float* to, int largest) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const int other = __shfl_xor_sync(0xffffffffU, largest, d);
    largest = other > largest ? other : largest;
  }
  if constexpr (kWarps > 1) {
    __shared__ int of_warps[kWarps];
    if (thread_index() % 32 == 0) of_warps[thread_index() / 32] = largest;
    __syncthreads();
    if (thread_index() == 0)
#pragma unroll
      for (int w = 0; w < kWarps; ++w) largest = of_warps[w] > largest ? of_warps[w] : largest;
  }
  int* place = reinterpret_cast<int*>(to);
  if (thread_index() % (32 * kWarps) == 0 && largest > *place) atomicMax(place, largest);
}

// Of values that were written as bf16: rounding keeps their order.
template <int kWarps> __device__ __forceinline__ void raise_to_rounded(float* to, int largest) {
  raise_to<kWarps>(to, bits_of(unpack2(pack2(float_of(largest), 0.F)).x));
}

} // namespace assay::simt
