// The instructions of kernels/simt.cuh in plain C++, element by element.
#pragma once

#include "kernels/bf16.h"
#include "tests/kernels/emulated_cuda.h"

namespace assay::simt {

inline int thread_index() {
  return static_cast<int>(emu::self->tid);
}
inline int block_index() {
  return static_cast<int>(emu::block_index.x);
}
inline int block_row() {
  return static_cast<int>(emu::block_index.y);
}
inline int block_count() {
  return static_cast<int>(emu::grid_size.x);
}
inline float reciprocal(float x) {
  return 1 / x;
}
inline float inverse_root(float x) {
  return 1 / std::sqrt(x);
}

inline std::uint32_t bf16_bits(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  if ((u & 0x7f800000u) == 0x7f800000u) return (u >> 16) | ((u & 0xffffu) ? 0x40u : 0u);
  return (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}
inline float bf16_value(std::uint32_t bits) {
  const std::uint32_t u = bits << 16;
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
inline std::uint32_t pack2(float low, float high) {
  return bf16_bits(low) | (bf16_bits(high) << 16);
}
inline std::uint32_t fp16_bits(float x) {
  const auto half = static_cast<_Float16>(x);
  std::uint16_t bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
inline std::uint32_t pack2_fp16(float low, float high) {
  return fp16_bits(low) | (fp16_bits(high) << 16);
}
inline float fp16_value(std::uint32_t bits) {
  const auto low = static_cast<std::uint16_t>(bits);
  _Float16 half;
  std::memcpy(&half, &low, 2);
  return static_cast<float>(half);
}
inline float2 unpack2_fp16(std::uint32_t w) {
  return {fp16_value(w & 0xffffu), fp16_value(w >> 16)};
}
inline float2 unpack2(std::uint32_t w) {
  return {bf16_value(w & 0xffffu), bf16_value(w >> 16)};
}

inline std::uint32_t to_tf32(float x) { // round to nearest, ties away
  std::uint32_t u;
  std::memcpy(&u, &x, 4);
  return (u + 0x1000u) & ~0x1fffu;
}
inline float tf32_value(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, 4);
  return x;
}
inline int bits_of(float x) {
  int bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}
inline float float_of(int bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}
inline float exp2_fast(float x) {
  return std::exp2(x);
}

inline float log2_fast(float x) {
  return std::log2(x);
}
inline std::uint32_t max2(std::uint32_t a, std::uint32_t b) { // a NaN loses, as on the device
  const float2 x = unpack2(a), y = unpack2(b);
  return pack2(std::fmax(x.x, y.x), std::fmax(x.y, y.y));
}

inline std::uint32_t mul2(std::uint32_t a, std::uint32_t b) {
  const float2 x = unpack2(a), y = unpack2(b);
  return pack2(x.x * y.x, x.y * y.y);
}

inline void load_matrices(std::uint32_t (&d)[4], const void* row, bool transposed) {
  const void* rows[32];
  emu::warp_gather(row, rows);
  const unsigned lane = emu::self->tid % 32, r = lane / 4, c = lane % 4;
  for (unsigned m = 0; m < 4; ++m) {
    std::uint16_t two[2];
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned at_row = transposed ? 2 * c + i : r, at_col = transposed ? r : 2 * c + i;
      two[i] = static_cast<const std::uint16_t*>(rows[8 * m + at_row])[at_col];
    }
    d[m] = std::uint32_t(two[0]) | std::uint32_t(two[1]) << 16;
  }
}
inline void ldmatrix(std::uint32_t (&d)[4], const void* row) {
  load_matrices(d, row, false);
}
inline void ldmatrix_t(std::uint32_t (&d)[4], const void* row) {
  load_matrices(d, row, true);
}

struct MmaOperands {
  std::uint32_t a[4], b[2];
};
template <class Unpack>
void multiply_16(float (&acc)[4],
                 const std::uint32_t (&a)[4],
                 std::uint32_t b0,
                 std::uint32_t b1,
                 Unpack unpack) {
  MmaOperands all[32];
  emu::warp_gather(MmaOperands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, all);
  const unsigned lane = emu::self->tid % 32, r = lane / 4, c = lane % 4;
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned j = 0; j < 2; ++j) {
      float sum = acc[2 * half + j];
      for (unsigned k = 0; k < 16; ++k) {
        const unsigned kc = k % 8 / 2, part = k / 8;
        const MmaOperands &x = all[4 * r + kc], &y = all[4 * (2 * c + j) + kc];
        const float2 av = unpack(x.a[2 * part + half]), bv = unpack(y.b[part]);
        sum += (k & 1 ? av.y : av.x) * (k & 1 ? bv.y : bv.x);
      }
      acc[2 * half + j] = sum;
    }
}
inline void mma(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_16(acc, a, b0, b1, unpack2);
}
inline void
mma_fp16(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  multiply_16(acc, a, b0, b1, unpack2_fp16);
}
// m16n8k8: A rows r, r+8; columns c, c+4 (a0 (r,c), a1 (r+8,c), a2 (r,c+4), a3 (r+8,c+4)); B rows
// c, c+4; column r.
inline void
mma_tf32(float (&acc)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  MmaOperands all[32];
  emu::warp_gather(MmaOperands{{a[0], a[1], a[2], a[3]}, {b0, b1}}, all);
  const unsigned lane = emu::self->tid % 32, r = lane / 4, c = lane % 4;
  for (unsigned half = 0; half < 2; ++half)
    for (unsigned j = 0; j < 2; ++j) {
      float sum = acc[2 * half + j];
      for (unsigned k = 0; k < 8; ++k) {
        const MmaOperands &x = all[4 * r + k % 4], &y = all[4 * (2 * c + j) + k % 4];
        sum += tf32_value(x.a[2 * (k / 4) + half]) * tf32_value(y.b[k / 4]);
      }
      acc[2 * half + j] = sum;
    }
}

inline void copy_later(void* to, const void* from, bool exists, std::size_t bytes) {
  emu::Copy copy{to, bytes, {}};
  if (exists) std::memcpy(copy.data, from, bytes);
  emu::self->open.push_back(copy);
}
inline void copy16(void* to, const void* from, bool exists) {
  copy_later(to, from, exists, 16);
}
inline void copy4(void* to, const void* from, bool exists) {
  copy_later(to, from, exists, 4);
}
inline void add4(float* to, float a, float b, float c, float d) { // fibers are not preempted
  to[0] += a, to[1] += b, to[2] += c, to[3] += d;
}
inline void store16(void* to, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  const std::uint32_t words[4] = {a, b, c, d};
  std::memcpy(to, words, 16);
}
inline void store16_if(void* to, uint4 x, bool exists) {
  if (exists) std::memcpy(to, &x, 16);
}
inline void store8_if(void* to, std::uint32_t a, std::uint32_t b, bool exists) {
  const std::uint32_t words[2] = {a, b};
  if (exists) std::memcpy(to, words, 8);
}
inline void copies_commit() {
  emu::self->groups.push_back(std::move(emu::self->open));
  emu::self->open.clear();
}
template <int kLeft> void copies_wait() {
  auto& groups = emu::self->groups;
  while (groups.size() > kLeft) {
    for (const emu::Copy& copy : groups.front()) std::memcpy(copy.to, copy.data, copy.bytes);
    groups.erase(groups.begin());
  }
}
inline void block_barrier() {
  __syncthreads();
}
template <int kThreads> void second_barrier() {
  emu::block->second.size = kThreads;
  emu::meet(emu::block->second, 0, nullptr, 0, nullptr);
}
inline void pair_barrier(int which) {
  emu::block->pairs[which].size = 64;
  emu::meet(emu::block->pairs[which], 0, nullptr, 0, nullptr);
}
inline void wait_for_kernel_before() {}
inline void let_kernel_after_start() {}
inline char* shared_memory() {
  return emu::shared_memory();
}

} // namespace assay::simt
