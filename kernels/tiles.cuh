// A warp's view of matrices in shared memory: a thread's place in its fragments, fragments of rows
// and columns, loads of rows, and results as the next product's operand.
#pragma once

#include "kernels/vectors.cuh"

namespace assay::simt {

constexpr int kPad = 8; // elements of bf16 behind a row, which keep ldmatrix free of bank conflicts

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

// Copies kRows rows of kWidth elements into shared memory, rows from `exists` on as zeros, by
// kCopiers threads.
template <int kRows, int kWidth, int kCopiers = 128>
__device__ __forceinline__ void load_rows(bf16* to,
                                          int stride,
                                          const bf16* from,
                                          std::int64_t from_stride,
                                          int exists,
                                          int thread = thread_index()) {
  constexpr int kWords = kWidth / 8, kStep = kCopiers / kWords; // rows at a time
  const int first = thread / kWords, column = thread % kWords * 8;
  from += first * from_stride + column, to += first * stride + column;
#pragma unroll
  for (int row = 0; row < kRows; row += kStep) { // nothing is read where no row exists
    copy16(to + row * stride, from, first + row < exists);
    from += kStep * from_stride;
  }
}

// A 16 x 16 tile row of a product's result as the left operand of the next product.
__device__ __forceinline__ void
as_left(std::uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = pack2(left[0], left[1]), a[1] = pack2(left[2], left[3]);
  a[2] = pack2(right[0], right[1]), a[3] = pack2(right[2], right[3]);
}

} // namespace assay::simt
