// What the five kernels share: a segment's chunks, a thread's place in its fragments, and loads.
#pragma once

#include "kernels/delta_rule/problem.h"
#include "kernels/vectors.cuh"

namespace assay::delta_rule {

using namespace simt;

constexpr int kThreads = 128;
constexpr int kPad = 8; // elements that keep ldmatrix free of bank conflicts

// How many of a head's value columns one block of `state` and `reverse` takes: the chain over
// chunks is latency-bound, and two blocks of 64 columns fill an SM.
template <int D> constexpr int kValuePart = D == 64 ? 64 : 32;

// 16-row tiles of the D x D state per warp; at D = 32 two of the four warps have one.
template <int D> constexpr int kStateTiles = D >= 64 ? D / 64 : 1;

// Chunks of one segment follow one another: no look-up on the way.
struct Span {
  int begin, end, token, tokens; // chunks; first token, tokens
  __device__ Span(const Problem& p, int segment)
      : begin(p.first[segment]), end(p.first[segment + 1]) {
    token = p.chunk[begin].x;
    tokens = (end - begin - 1) * kChunk + p.chunk[end - 1].y;
  }
  __device__ int2 chunk(int n) const {
    const int before = (n - begin) * kChunk, left = tokens - before;
    return make_int2(token + before, left < kChunk ? left : kChunk);
  }
};

struct Lane {
  int lane, warp, r, c;
  __device__ Lane()
      : lane(thread_index() % 32), warp(thread_index() / 32), r(lane / 4), c(lane % 4) {}
};

// Fragments from matrices in shared memory, rows of `stride` elements.
__device__ __forceinline__ void
load_a(std::uint32_t (&a)[4], const bf16* x, int stride, int row, int k, int lane) {
  ldmatrix(a, x + (row + lane % 16) * stride + k + lane / 16 * 8); // A[i][k] = x[i][k]
}
__device__ __forceinline__ void
load_a_t(std::uint32_t (&a)[4], const bf16* x, int stride, int row, int k, int lane) {
  ldmatrix_t(
      a, x + (k + lane % 8 + lane / 16 * 8) * stride + row + lane / 8 % 2 * 8); // A[i][k] = x[k][i]
}
__device__ __forceinline__ void
load_b(std::uint32_t (&b)[4], const bf16* x, int stride, int k, int column, int lane) {
  ldmatrix_t(
      b, x + (k + lane % 16) * stride + column + lane / 16 * 8); // B[k][n] = x[k][n], 16 columns
}
__device__ __forceinline__ void
load_b_t(std::uint32_t (&b)[4], const bf16* x, int stride, int k, int column, int lane) {
  ldmatrix(b,
           x + (column + lane % 8 + lane / 16 * 8) * stride + k +
               lane / 8 % 2 * 8); // B[k][n] = x[n][k]
}

// Copies kRows rows of kWidth elements into shared memory, rows from `exists` on as zeros.
template <int kRows, int kWidth>
__device__ __forceinline__ void
load_rows(bf16* to, int stride, const bf16* from, std::int64_t from_stride, int exists) {
  constexpr int kWords = kWidth / 8;
#pragma unroll
  for (int i = 0; i < kRows * kWords / kThreads; ++i) {
    const int word = thread_index() + i * kThreads, row = word / kWords, column = word % kWords * 8;
    copy16(to + row * stride + column,
           from + (row < exists ? row : 0) * from_stride + column,
           row < exists);
  }
}

// What a block of `state` and `reverse` works on: a segment, a head and DV of its D value columns.
template <int D, int DV> struct SegmentPart {
  int part, head, key_head;
  Span span;
  bool owns_state; // this warp has rows of the state
  __device__ SegmentPart(const Problem& p, int warp)
      : part(block_index() % (D / DV)), head(block_index() / (D / DV) % p.heads),
        key_head(head / (p.heads / p.heads_k)), span(p, block_index() / (D / DV) / p.heads),
        owns_state(D >= 64 || 16 * warp < D) {}
};

// T and the decays of a chunk into a stage of shared memory laid out by M.
template <class M>
__device__ __forceinline__ void load_inverse(bf16* to, const Problem& p, int n, int head) {
  const std::int64_t place = (static_cast<std::int64_t>(n) * p.heads + head) * kChunk;
  load_rows<kChunk, kChunk>(
      to + M::inverse, M::t_stride, p.inverse + place * kChunk, kChunk, kChunk);
  if (thread_index() < 32)
    copy16(to + M::decay + 8 * thread_index(), p.decay + place + 2 * thread_index(), true);
}

// A state's DV columns between shared memory and [N, heads, D, D].
template <int D, class M> __device__ __forceinline__ void clear_state(bf16* state) {
  for (int i = thread_index(); i < D * M::value_stride / 8; i += kThreads)
    reinterpret_cast<uint4*>(state)[i] = make_uint4(0, 0, 0, 0);
}
template <int D, int DV, class M>
__device__ __forceinline__ void store_state(
    bf16* states, const bf16* state, const Problem& p, int n, const SegmentPart<D, DV>& of) {
  bf16* to = states + (static_cast<std::int64_t>(n) * p.heads + of.head) * D * D + of.part * DV;
#pragma unroll
  for (int i = 0; i < D * DV / 8 / kThreads; ++i) {
    const int word = thread_index() + i * kThreads, y = word / (DV / 8), x = word % (DV / 8) * 8;
    *reinterpret_cast<uint4*>(to + y * D + x) =
        *reinterpret_cast<const uint4*>(state + y * M::value_stride + x);
  }
}

// s += left^T right over the chunk's tokens, for the rows of the state that this warp owns.
template <int D, int DV, class M>
__device__ __forceinline__ void add_to_state(float (&s)[kStateTiles<D>][DV / 8][4],
                                             const bf16* left,
                                             const bf16* right,
                                             const Lane& at) {
  constexpr int kRows = kStateTiles<D>;
#pragma unroll
  for (int k = 0; k < kChunk; k += 16) {
    std::uint32_t a[kRows][4];
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      load_a_t(a[i], left, M::key_stride, 16 * (kRows * at.warp + i), k, at.lane);
#pragma unroll
    for (int j = 0; j < DV / 8; j += 2) {
      std::uint32_t b[4];
      load_b(b, right, M::value_stride, k, 8 * j, at.lane);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        mma(s[i][j], a[i], b[0], b[1]);
        mma(s[i][j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// The same rows, rounded, into shared memory: what the next chunk reads.
template <int D, int DV, class M>
__device__ __forceinline__ void
round_state(bf16* state, const float (&s)[kStateTiles<D>][DV / 8][4], const Lane& at) {
  constexpr int kRows = kStateTiles<D>;
#pragma unroll
  for (int i = 0; i < kRows; ++i)
#pragma unroll
    for (int j = 0; j < DV / 8; ++j) {
      const int place = (16 * (kRows * at.warp + i) + at.r) * M::value_stride + 8 * j + 2 * at.c;
      *reinterpret_cast<std::uint32_t*>(state + place) = pack2(s[i][j][0], s[i][j][1]);
      *reinterpret_cast<std::uint32_t*>(state + place + 8 * M::value_stride) =
          pack2(s[i][j][2], s[i][j][3]);
    }
}

} // namespace assay::delta_rule
