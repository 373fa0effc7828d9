// The two kernels of a cast to 8-bit floats. The first reads from the end of the tensor to its
// beginning, the second from the beginning on: what was written or read last is still in L2.
#pragma once

#include "kernels/fp8/problem.h"
#include "kernels/largest.cuh"

#ifndef ASSAY_EMULATED_CUDA
#include <cuda_fp8.h>
#endif

namespace assay::fp8 {

using namespace simt;

#ifndef ASSAY_EMULATED_CUDA
// Two codes, `low` in the lower byte: to nearest even, finite values that are too large to the
// largest one.
template <Fp8Format kFormat> __device__ __forceinline__ unsigned codes2(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(
      make_float2(low, high), __NV_SATFINITE, kFormat == Fp8Format::E4M3 ? __NV_E4M3 : __NV_E5M2);
}
#endif

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kWord = 8;  // elements that a thread reads at once
constexpr int kReads = 4; // words under way
constexpr int kTile = 128;
constexpr float kLeast = 1e-12F;

template <Fp8Format kFormat> constexpr float kMost = kFormat == Fp8Format::E4M3 ? 448.F : 57344.F;

// Eight elements as they are read.
template <class T> struct Word;
template <> struct Word<bf16> {
  uint4 bits;
  __device__ __forceinline__ void read(const bf16* from) {
    bits = *reinterpret_cast<const uint4*>(from);
  }
  __device__ __forceinline__ void read(const bf16* from, std::int64_t left) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = 2 * i < left ? from[2 * i] : 0U;
      if (2 * i + 1 < left) pairs[i] |= static_cast<std::uint32_t>(from[2 * i + 1]) << 16;
    }
    bits = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  __device__ __forceinline__ void values(float (&x)[kWord]) const {
    unpack(x, bits);
  }
};
template <> struct Word<float> {
  float x_[kWord];
  __device__ __forceinline__ void read(const float* from) { load(x_, from); }
  __device__ __forceinline__ void read(const float* from, std::int64_t left) {
#pragma unroll
    for (int e = 0; e < kWord; ++e) x_[e] = e < left ? from[e] : 0.F;
  }
  __device__ __forceinline__ void values(float (&x)[kWord]) const {
#pragma unroll
    for (int e = 0; e < kWord; ++e) x[e] = x_[e];
  }
};

// `words` at from[i], of which left[i] elements exist; what is beyond becomes 0. Reads under a
// condition would wait for one another, so whole words are read without one. kWords: see
// launch_fp8_cast().
template <bool kWords, int kCount, class T>
__device__ __forceinline__ void
read(Word<T> (&words)[kCount], const T* const (&from)[kCount], const std::int64_t (&left)[kCount]) {
  bool whole = kWords;
#pragma unroll
  for (int i = 0; i < kCount; ++i) whole = whole && left[i] >= kWord;
  if (whole) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i].read(from[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i].read(from[i], left[i]);
  }
}

// Of a tensor whose rows lie one after the other `columns` is its size and `rows` is 1.
struct Amax {
  const void* x;
  std::int64_t rows, columns, stride;
  float* amax;
};

template <bool kWords, class T> __global__ void __launch_bounds__(kThreads) amax_kernel(Amax p) {
  const std::int64_t words = (p.columns + kWord - 1) / kWord, all = words * p.rows,
                     step = static_cast<std::int64_t>(block_count()) * kThreads;
  int largest = 0;
  for (std::int64_t i = static_cast<std::int64_t>(block_index()) * kThreads + thread_index();
       i < all;
       i += kReads * step) {
    Word<T> read_words[kReads];
    const T* from[kReads];
    std::int64_t left[kReads];
#pragma unroll
    for (int k = 0; k < kReads; ++k) {
      const std::int64_t word = all - 1 - (i + k * step < all ? i + k * step : i);
      const std::int64_t row = p.rows == 1 ? 0 : word / words,
                         column = kWord * (word - row * words);
      from[k] = static_cast<const T*>(p.x) + row * p.stride + column;
      left[k] = p.columns - column;
    }
    read<kWords>(read_words, from, left);
#pragma unroll
    for (int k = 0; k < kReads; ++k) {
      float x[kWord];
      read_words[k].values(x);
      add_largest(largest, x);
    }
  }
  raise_to<kWarps>(p.amax, largest);
}

// Rows a … d of four bytes each, to columns.
__device__ __forceinline__ void transpose(std::uint32_t (&column)[4],
                                          std::uint32_t a,
                                          std::uint32_t b,
                                          std::uint32_t c,
                                          std::uint32_t d) {
  const std::uint32_t ab = __byte_perm(a, b, 0x5140), ab2 = __byte_perm(a, b, 0x7362);
  const std::uint32_t cd = __byte_perm(c, d, 0x5140), cd2 = __byte_perm(c, d, 0x7362);
  column[0] = __byte_perm(ab, cd, 0x5410), column[1] = __byte_perm(ab, cd, 0x7632);
  column[2] = __byte_perm(ab2, cd2, 0x5410), column[3] = __byte_perm(ab2, cd2, 0x7632);
}

// A tile of 128 rows and columns by rows, and by columns through shared memory. Thread 16 r + c has
// eight rows from 8 r and eight columns from 8 c: a warp reads and writes whole lines of rows. In
// shared memory a column has 16 words of eight rows; word r of columns 8 c … 8 c + 7 is at r ^ c,
// so that neither side meets in a bank.
template <bool kWords, class T, Fp8Format kFormat>
__global__ void __launch_bounds__(kThreads) cast_kernel(Fp8Cast p) {
  __shared__ uint4 tile[kTile * kTile / 16];
  const float amax = *p.amax;
  const float bounded = amax < kLeast ? kLeast : amax; // keeps a NaN
  const float scale = kMost<kFormat> / bounded;
  const std::int64_t row0 = static_cast<std::int64_t>(block_row()) * kTile,
                     column0 = static_cast<std::int64_t>(block_index()) * kTile;
  const int thread = thread_index(), r = thread / 16, c = thread % 16;
  if (block_index() == 0 && block_row() == 0 && thread == 0)
    *p.inverse_scale = bounded / kMost<kFormat>;
  const std::int64_t column = column0 + kWord * c, left = p.columns - column;
  Word<T> words[8];
  const T* from[8];
  std::int64_t exist[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = row0 + 8 * r + i;
    from[i] = static_cast<const T*>(p.x) + row * p.stride + column;
    exist[i] = row < p.rows ? left : 0;
  }
  read<kWords>(words, from, exist);
  std::uint32_t low[8], high[8]; // codes of a row's first and last four columns
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = row0 + 8 * r + i;
    float x[kWord];
    words[i].values(x);
    low[i] = codes2<kFormat>(x[0] * scale, x[1] * scale) |
             codes2<kFormat>(x[2] * scale, x[3] * scale) << 16;
    high[i] = codes2<kFormat>(x[4] * scale, x[5] * scale) |
              codes2<kFormat>(x[6] * scale, x[7] * scale) << 16;
    if (p.by_rows != nullptr && row < p.padded_rows && column < p.padded_columns)
      *reinterpret_cast<uint2*>(static_cast<char*>(p.by_rows) + row * p.padded_columns + column) =
          make_uint2(low[i], high[i]);
  }
  if (p.by_columns == nullptr) return;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t(&codes)[8] = half == 0 ? low : high;
    std::uint32_t above[4], below[4];
    transpose(above, codes[0], codes[1], codes[2], codes[3]);
    transpose(below, codes[4], codes[5], codes[6], codes[7]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      reinterpret_cast<uint2*>(tile)[(8 * c + 4 * half + j) * 16 + (r ^ c)] =
          make_uint2(above[j], below[j]);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile * kTile / 16 / kThreads; ++i) {
    const int place = thread + i * kThreads, k = place / 8, part = place % 8; // of column k
    const std::int64_t to_column = column0 + k, to_row = row0 + 16 * part;
    if (to_column >= p.padded_columns || to_row >= p.padded_rows) continue;
    const uint4 two = tile[k * 8 + (part ^ (k / 16))]; // words 2 part and 2 part + 1, or swapped
    *reinterpret_cast<uint4*>(static_cast<char*>(p.by_columns) + to_column * p.padded_rows +
                              to_row) =
        k / 8 % 2 == 0 ? two : make_uint4(two.z, two.w, two.x, two.y);
  }
}

} // namespace assay::fp8
