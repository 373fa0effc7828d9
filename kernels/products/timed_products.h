// Matrix products by cuBLASLt in bf16 whose algorithm is chosen by timing: out = left right, with a
// bias for each column or without, or out += left right. The first product of a shape runs each of
// the algorithms that the heuristics propose on its own operands and keeps the fastest until the
// process ends.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>

namespace assay::timed_products {

// A matrix in memory, its rows one after another, `stride` elements apart; `transposed`: the matrix
// meant is its transpose.
struct Operand {
  std::int64_t stride = 0;
  bool transposed = false;
  auto operator<=>(const Operand&) const = default;
};

// left [rows, inner] and right [inner, columns] in bf16; out [rows, columns] in bf16 or fp32. Sums
// are in fp32. Strides are multiples of 8.
struct Shape {
  std::int64_t rows = 0, columns = 0, inner = 0;
  Operand left, right;
  std::int64_t out_stride = 0;
  bool wide = false;   // out in fp32
  bool biased = false; // each row of out takes a bias, [columns] in bf16, before it is rounded
  auto operator<=>(const Shape&) const = default;
};

inline constexpr std::int64_t kWorkspaceBytes = std::int64_t{8} << 20;
inline constexpr std::int64_t kAlignment = 16; // bytes, of all pointers

struct Pointers {
  const void* left = nullptr;
  const void* right = nullptr;
  void* out = nullptr;
  void* workspace = nullptr; // kWorkspaceBytes
  const void* bias = nullptr;
};

// Whether cuBLASLt has an algorithm for the shape on the current device. From any thread.
bool takes(cublasLtHandle_t handle, const Shape& shape);

// `add`: out += left right; an algorithm is then not chosen but taken from a product without `add`,
// or the heuristics' first. While the stream is captured none is chosen either. `handle`: of the
// current device. The first product of a shape waits for the stream; others do not.
// Failure: the call, the shape and cuBLASLt's own words.
void run(cublasLtHandle_t handle,
         const Shape& shape,
         const Pointers& pointers,
         bool add,
         cudaStream_t stream);

} // namespace assay::timed_products
