// Matrix products by cuBLASLt in bf16 that work on their result, or sum an operand, before it
// leaves the chip. All matrices are row-major and contiguous, sums are in fp32. A call takes device
// pointers and a stream, allocates nothing and waits for nothing, so that a CUDA graph can capture
// it.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <optional>

namespace assay::lt_products {

enum class Form {
  BiasGelu,        // gelu_in = left right^T + bias; out = gelu(gelu_in), the tanh form
  GeluGradient,    // out = (left right) * gelu'(gelu_in)
  GeluGradientSum, // the same; bias = the sum of out's rows, rounded once
  LeftSum          // out = left^T right; bias = the sum of left's rows; both in fp32
};

// out: [rows, columns]; `inner` is summed over. left: [rows, inner], of LeftSum [inner, rows].
// right: [inner, columns], of BiasGelu [columns, inner]. What lies one after the other in memory,
// the last size of each, must be a multiple of 8.
struct Shape {
  Form form = Form::BiasGelu;
  std::int64_t rows = 0, columns = 0, inner = 0;
  auto operator<=>(const Shape&) const = default;
};

// Device pointers of a call, in multiples of kAlignment bytes.
inline constexpr std::size_t kAlignment = 256;
struct Pointers {
  const void* left = nullptr;
  const void* right = nullptr;
  void* out = nullptr;
  void* gelu_in = nullptr; // [rows, columns]; null for LeftSum
  void* bias = nullptr;    // [columns], of LeftSum [rows]; null for GeluGradient
  void* workspace = nullptr;
};

// Bytes of workspace of a call; nothing: cuBLASLt has no algorithm for the shape on the current
// device. Its heuristics choose one for the first call of a shape, and it is kept until the process
// ends. From any thread. Failure: the call, the shape and cuBLASLt's own words.
std::optional<std::int64_t> workspace_bytes(cublasLtHandle_t handle, const Shape& shape);

// `handle`: of the current device. Failure as above.
void run(cublasLtHandle_t handle,
         const Shape& shape,
         const Pointers& pointers,
         cudaStream_t stream);

} // namespace assay::lt_products
