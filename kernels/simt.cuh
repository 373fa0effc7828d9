// Instructions that kernels share, under plain names. lane = 4 r + c. Fragments of mma.m16n8k16
// (bf16, fp16): A rows r, r+8; columns 2c, 2c+1, 2c+8, 2c+9. B rows 2c, 2c+1, 2c+8, 2c+9; column r.
// C rows r, r+8; columns 2c, 2c+1. PTX ISA 8.8, section 9.7.14.5. tests/kernels/emulated_cuda.h
// defines the same functions in plain C++, so that a test can run the kernels without a GPU.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

#ifndef ASSAY_EMULATED_CUDA

#include <cuda_runtime.h>

namespace assay::simt {

__device__ __forceinline__ int thread_index() {
  return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int block_index() {
  return static_cast<int>(blockIdx.x);
}
__device__ __forceinline__ int block_row() {
  return static_cast<int>(blockIdx.y);
}
__device__ __forceinline__ int block_count() {
  return static_cast<int>(gridDim.x);
}
__device__ __forceinline__ std::uint32_t pack2(float low, float high) {
  std::uint32_t w;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}
__device__ __forceinline__ std::uint32_t pack2_fp16(float low, float high) {
  std::uint32_t w;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}
__device__ __forceinline__ float2 unpack2(std::uint32_t w) {
  return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u));
}
__device__ __forceinline__ float2 unpack2_fp16(std::uint32_t w) {
  float low, high;
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2; cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
      : "=f"(low), "=f"(high)
      : "r"(w));
  return make_float2(low, high);
}
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t u;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(u) : "f"(x));
  return u;
}
__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float log2_fast(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ std::uint32_t max2(std::uint32_t a, std::uint32_t b) { // of bf16 pairs
  std::uint32_t c;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
  return c;
}
// Products of two pairs of bf16, rounded once.
__device__ __forceinline__ std::uint32_t mul2(std::uint32_t a, std::uint32_t b) {
  std::uint32_t c;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(c) : "r"(a), "r"(b), "r"(0x80008000U));
  return c;
}
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float inverse_root(float x) {
  return rsqrtf(x);
}
__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void ldmatrix(std::uint32_t (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(shared_address(row)));
}
__device__ __forceinline__ void ldmatrix_t(std::uint32_t (&d)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(shared_address(row)));
}
__device__ __forceinline__ void
mma(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void
mma_fp16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void
mma_tf32(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void copy16(void* to, const void* from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
               "l"(from),
               "r"(exists ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void copy4(void* to, const void* from, bool exists) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)),
               "l"(from),
               "r"(exists ? 4 : 0)
               : "memory");
}
// Adds four floats in device memory, each atomically.
__device__ __forceinline__ void add4(float* to, float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 900
  atomicAdd(reinterpret_cast<float4*>(to), make_float4(a, b, c, d));
#else
  atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
#endif
}
// One access: nvcc splits the assignment of a uint4 made of four values.
__device__ __forceinline__ void
store16(void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
// The same where `exists`, and 8 bytes; without a branch.
__device__ __forceinline__ void store16_if(void* to, uint4 x, bool exists) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %5, 0; @p st.global.v4.b32 [%0], {%1, %2, %3, %4};}" ::"l"(to),
      "r"(x.x),
      "r"(x.y),
      "r"(x.z),
      "r"(x.w),
      "r"(static_cast<int>(exists))
      : "memory");
}
__device__ __forceinline__ void store8_if(void* to, std::uint32_t a, std::uint32_t b, bool exists) {
  asm volatile(
      "{.reg .pred p; setp.ne.s32 p, %3, 0; @p st.global.v2.b32 [%0], {%1, %2};}" ::"l"(to),
      "r"(a),
      "r"(b),
      "r"(static_cast<int>(exists))
      : "memory");
}
__device__ __forceinline__ void copies_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft> __device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
// __syncthreads() for warps that do other work and so meet at other lines.
__device__ __forceinline__ void block_barrier() {
  asm volatile("bar.sync 0;" ::: "memory");
}
// Another barrier of all kThreads. Nobody only arrives: racecheck takes what bar.arrive orders for
// races.
template <int kThreads> __device__ __forceinline__ void second_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kThreads) : "memory");
}
// Two warps meet at one of two barriers (`which`: 0 or 1); a number in a register would reserve
// all.
__device__ __forceinline__ void pair_barrier(int which) {
  if (which == 0)
    asm volatile("bar.sync 1, 64;" ::: "memory");
  else
    asm volatile("bar.sync 2, 64;" ::: "memory");
}
// Programmatic dependent launch: a kernel launched so starts when every block of the kernel before
// lets it or has ended. It reads what that kernel writes only after it has waited for its end.
__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_kernel_after_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ __forceinline__ char* shared_memory() {
  extern __shared__ __align__(128) char delta_rule_shared[];
  return delta_rule_shared;
}

} // namespace assay::simt

#endif
