// What the kernels of both recurrences share: a segment's chunks, pairs of bf16, sums over rows,
// and a warp's 16 rows of a result on their way to memory.
#pragma once

#include "kernels/scan/problem.h"
#include "kernels/tiles.cuh"

namespace assay::scan {

using namespace simt;

constexpr int kStride = kWidth + kPad, kTile = kChunk * kStride; // of values in shared memory

__device__ __forceinline__ std::int64_t wide(int x) {
  return x;
}

struct Span {
  int begin, count, token, tokens; // chunks; first token, tokens
  int2 slot;
  __device__ Span(const ChunkTable& p, int segment)
      : begin(p.first == nullptr ? segment : p.first[segment]),
        slot(p.slot == nullptr ? make_int2(-1, -1) : p.slot[segment]) {
    const int end = p.first == nullptr ? segment + 1 : p.first[segment + 1];
    count = end - begin;
    token = p.chunk[begin].x;
    tokens = (count - 1) * kChunk + p.chunk[end - 1].y;
  }
  __device__ int2 chunk(int n) const { // n counts from the segment's first chunk
    const int before = n * kChunk, left = tokens - before;
    return make_int2(token + before, left < kChunk ? left : kChunk);
  }
};

__device__ __forceinline__ float2 pair(const bf16* x) {
  return unpack2(*reinterpret_cast<const std::uint32_t*>(x));
}
__device__ __forceinline__ std::uint32_t word(const bf16* x) {
  return *reinterpret_cast<const std::uint32_t*>(x);
}
__device__ __forceinline__ void put(bf16* to, std::uint32_t x) {
  *reinterpret_cast<std::uint32_t*>(to) = x;
}
__device__ __forceinline__ void put(bf16* to, float x, float y) {
  put(to, pack2(x, y));
}

// x[2 j + e] of this lane's columns 8 j + 2 c + e: their sums over the lanes' rows. With 8 tiles
// lane (r, c) keeps the columns 8 r + 2 c + e in x[e], with 4 tiles column 8 (r / 2) + 2 c + r % 2
// in x[0].
template <int kValues>
__device__ __forceinline__ void sum_columns(float (&x)[kValues], const Lane& at) {
#pragma unroll
  for (int step = 0; step < 3; ++step) {
    const int bit = 4 >> step, keep = kValues >> (step + 1);
    const bool up = at.r & bit;
#pragma unroll
    for (int i = 0; i < kValues / 2; ++i)
      if (i < keep) {
        const float mine = up ? x[i + keep] : x[i], other = up ? x[i] : x[i + keep];
        x[i] = mine + __shfl_xor_sync(0xffffffffU, other, 4 * bit);
      }
  }
}

// Stores a row's columns 8 j … 8 j + 15 from the four lanes of a quad, 8 bytes a lane, whole
// sectors: `left` and `right` are this lane's pairs of tiles j and j + 1.
__device__ __forceinline__ void
store_pair(bf16* row, int j, std::uint32_t left, std::uint32_t right, int c, bool exists) {
  const bool odd = c & 1;
  const std::uint32_t other = __shfl_xor_sync(0xffffffffU, odd ? left : right, 1);
  store8_if(row + 8 * (j + odd) + 4 * (c / 2), odd ? other : left, odd ? right : other, exists);
}

// 16 rows and kTiles tiles of 8 columns of a matrix, as accumulators.
template <int kTiles>
__device__ __forceinline__ void
take_rows(float (&s)[kTiles][4], const bf16* from, int stride, int lane) {
#pragma unroll
  for (int j = 0; j < kTiles; j += 2) {
    std::uint32_t x[4];
    load_a(x, from, stride, 0, 8 * j, lane);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 two = unpack2(x[e]);
      s[j + e / 2][e % 2 * 2] = two.x, s[j + e / 2][e % 2 * 2 + 1] = two.y;
    }
  }
}
// A warp's 16 rows of a result (kTiles tiles of 8 columns) into shared memory, and from there on to
// memory in pieces of 16 bytes, rows from `exist` on not.
template <int kTiles>
__device__ __forceinline__ void
give_rows(bf16* to, int stride, const float (&x)[kTiles][4], const Lane& at) {
  bf16* row = to + at.r * stride + 2 * at.c;
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
    put(row + 8 * j, x[j][0], x[j][1]), put(row + 8 * stride + 8 * j, x[j][2], x[j][3]);
}
template <int kTiles>
__device__ __forceinline__ void copy_rows(
    bf16* to, std::int64_t to_stride, const bf16* from, int stride, int exist, const Lane& at) {
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kTiles / 2; ++i) {
    const int word = at.lane + 32 * i, y = word / kTiles, column = word % kTiles * 8;
    store16_if(to + y * to_stride + column,
               *reinterpret_cast<const uint4*>(from + y * stride + column),
               y < exist);
  }
}
template <int kTiles>
__device__ __forceinline__ void store_rows(bf16* to,
                                           std::int64_t to_stride,
                                           bf16* place,
                                           int stride,
                                           const float (&x)[kTiles][4],
                                           int exist,
                                           const Lane& at) {
  __syncwarp();
  give_rows(place, stride, x, at);
  copy_rows<kTiles>(to, to_stride, place, stride, exist, at);
}

} // namespace assay::scan
