// A matrix in 8-bit floats, and a tensor that is there in such a form alone.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace assay {

inline constexpr std::int64_t kFp8Multiple =
    16; // of every size that _scaled_mm sums over or writes
constexpr std::int64_t fp8_padded(std::int64_t size) {
  return (size + kFp8Multiple - 1) / kFp8Multiple * kFp8Multiple;
}

// A matrix [R, C] cast to 8 bits, both sizes padded with zeros to multiples of 16.
struct Fp8Matrix {
  at::Tensor by_rows;       // [R', C'] row-major; undefined if not asked for
  at::Tensor by_columns;    // [C', R'] row-major: the transpose; undefined if not asked for
  at::Tensor inverse_scale; // fp32 scalar: value = code * inverse_scale
};

// A bf16 tensor of `sizes` [R, C] on the matrix's device without memory of its own, as autograd
// passes it from the kernel that wrote `matrix` to the FP8 linear that reads it. Whoever
// reads it in another way reads from null, never values. It keeps the matrix.
at::Tensor fp8_only(at::IntArrayRef sizes, Fp8Matrix matrix);

// The matrix of such a tensor or of a view of it, as long as it lives; null: another tensor.
const Fp8Matrix* fp8_of(const at::Tensor& x);

} // namespace assay
