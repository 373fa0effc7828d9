// A tile of 128 rows and columns of codes, written by rows and by columns. Thread 16 r + c has
// eight rows from 8 r and eight columns from 8 c: a warp reads and writes whole lines of rows.
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
constexpr int kWord = 8; // elements that a thread reads at once
constexpr int kTile = 128;
constexpr float kLeast = 1e-12F;

template <Fp8Format kFormat> constexpr float kMost = kFormat == Fp8Format::E4M3 ? 448.F : 57344.F;

// By which a tensor of that largest value is multiplied; a NaN stays one.
template <Fp8Format kFormat> struct Scale {
  float bounded, factor;
  __device__ __forceinline__ explicit Scale(float largest)
      : bounded(largest < kLeast ? kLeast : largest), factor(kMost<kFormat> / bounded) {}
  __device__ __forceinline__ float inverse() const { return bounded / kMost<kFormat>; }
  // inf gives NaN, also where it is above what an earlier step's scale expects.
  __device__ __forceinline__ float of(float x) const { return x * factor + x * 0.F; }
};

// Codes of a thread's eight rows: of the first and the last four columns.
struct Codes {
  std::uint32_t low[8], high[8];
};

template <Fp8Format kFormat>
__device__ __forceinline__ void
encode(std::uint32_t& low, std::uint32_t& high, const float (&x)[kWord], Scale<kFormat> s) {
  low = codes2<kFormat>(s.of(x[0]), s.of(x[1])) | codes2<kFormat>(s.of(x[2]), s.of(x[3])) << 16;
  high = codes2<kFormat>(s.of(x[4]), s.of(x[5])) | codes2<kFormat>(s.of(x[6]), s.of(x[7])) << 16;
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

// What x is after it was written as bf16 and read again.
__device__ __forceinline__ void round_bf16(float (&x)[kWord]) {
  unpack(x, make_uint4(pack2(x[0], x[1]), pack2(x[2], x[3]), pack2(x[4], x[5]), pack2(x[6], x[7])));
}

__device__ __forceinline__ void clear(float (&x)[kWord]) {
#pragma unroll
  for (int e = 0; e < kWord; ++e) x[e] = 0;
}

// A thread's eight rows and columns of [rows, columns]. What is beyond is read from inside and
// cleared: reads under a condition would wait for one another.
struct Part {
  std::int64_t rows, row0, column0, row, column;
  bool inside;
  __device__ __forceinline__ Part(std::int64_t all_rows, std::int64_t columns)
      : rows(all_rows), row0(static_cast<std::int64_t>(block_row()) * kTile),
        column0(static_cast<std::int64_t>(block_index()) * kTile),
        row(row0 + thread_index() / 16 * 8), column(column0 + thread_index() % 16 * kWord),
        inside(column < columns) {
    if (!inside) column = 0;
  }
  __device__ __forceinline__ std::int64_t readable(int i) const {
    return row + i < rows ? row + i : rows - 1;
  }
  __device__ __forceinline__ bool exists(int i) const { return inside && row + i < rows; }
};

// A matrix of codes, and a tile of it.
struct Place {
  void *by_rows, *by_columns; // null: not wanted
  std::int64_t rows, columns; // of the matrix
  std::int64_t row0, column0;
};

__device__ __forceinline__ void write_rows(const Place& p, const Codes& codes) {
  const int r = thread_index() / 16, c = thread_index() % 16;
  const std::int64_t column = p.column0 + kWord * c;
  if (p.by_rows == nullptr || column >= p.columns) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = p.row0 + 8 * r + i;
    if (row < p.rows)
      *reinterpret_cast<uint2*>(static_cast<char*>(p.by_rows) + row * p.columns + column) =
          make_uint2(codes.low[i], codes.high[i]);
  }
}

using Shared = uint4[kTile * kTile / 16];

// In shared memory a column has 16 words of eight rows; word r of columns 8 c … 8 c + 7 is at
// r ^ c, so that neither side meets in a bank.
__device__ __forceinline__ void share_columns(Shared& tile, const Codes& all) {
  const int r = thread_index() / 16, c = thread_index() % 16;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t(&codes)[8] = half == 0 ? all.low : all.high;
    std::uint32_t above[4], below[4];
    transpose(above, codes[0], codes[1], codes[2], codes[3]);
    transpose(below, codes[4], codes[5], codes[6], codes[7]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      reinterpret_cast<uint2*>(tile)[(8 * c + 4 * half + j) * 16 + (r ^ c)] =
          make_uint2(above[j], below[j]);
  }
}

// After a __syncthreads().
__device__ __forceinline__ void write_columns(const Place& p, const Shared& tile) {
#pragma unroll
  for (int i = 0; i < kTile * kTile / 16 / kThreads; ++i) {
    const int place = thread_index() + i * kThreads, k = place / 8, part = place % 8; // of column k
    const std::int64_t to_column = p.column0 + k, to_row = p.row0 + 16 * part;
    if (to_column >= p.columns || to_row >= p.rows) continue;
    const uint4 two = tile[k * 8 + (part ^ (k / 16))]; // words 2 part and 2 part + 1, or swapped
    *reinterpret_cast<uint4*>(static_cast<char*>(p.by_columns) + to_column * p.rows + to_row) =
        k / 8 % 2 == 0 ? two : make_uint4(two.z, two.w, two.x, two.y);
  }
}

// The end of a kernel that writes its result in 8 bits, called by all threads of all blocks.
template <Fp8Format kFormat>
__device__ __forceinline__ void
finish(const Fp8Written& to, const Scale<kFormat>& scale, int largest) {
  if (block_row() == 0 && block_index() == 0 && thread_index() == 0)
    *to.inverse_scale = scale.inverse();
  raise_to<kWarps>(to.amax, largest);
}

} // namespace assay::fp8
