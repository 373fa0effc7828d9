// FP8 linears (arXiv 2209.05433: e4m3 forward, e5m2 gradients), one scale a tensor taken from the
// tensor itself (its largest magnitude), products by _scaled_mm with fp32 accumulation.
#pragma once

#include <ATen/ATen.h>

#include <unordered_map>

namespace assay {

// A matrix [R, C] cast to 8 bits, both sizes padded with zeros to multiples of 16.
struct Fp8Matrix {
  at::Tensor by_rows;       // [R', C'] row-major; undefined if not asked for
  at::Tensor by_columns;    // [C', R'] row-major: the transpose; undefined if not asked for
  at::Tensor inverse_scale; // fp32 scalar: value = code * inverse_scale
};

enum class Fp8Orders { Rows, Columns, Both };

// x: [R, C] fp32, bf16 or fp16, on any device; kFloat8_e4m3fn or kFloat8_e5m2. inf gives NaN.
Fp8Matrix to_fp8(const at::Tensor& x, at::ScalarType format, Fp8Orders orders);

// The casts of weights, kept until forget(): once an optimizer step, however many micro-batches.
class Fp8Weights {
public:
  const Fp8Matrix& of(const at::Tensor& weight); // [out, in], both orders
  void forget() { casts_.clear(); }              // after every change of the weights

private:
  std::unordered_map<const at::TensorImpl*, Fp8Matrix> casts_;
};

// apply_linear() below computes in FP8 while one lives on this thread; null: it does not.
class Fp8Guard {
public:
  explicit Fp8Guard(Fp8Weights* weights);
  ~Fp8Guard();
  Fp8Guard(const Fp8Guard&) = delete;
  Fp8Guard& operator=(const Fp8Guard&) = delete;

private:
  Fp8Weights* outer_;
};

// x W^T + bias: [T, in], [out, in] and [out], or undefined, give [T, out]. In FP8 the result is
// bf16 and `in` must divide by 16; where it does not, and without a guard, this is linear16().
// Counts "fp8/linear".
at::Tensor apply_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

} // namespace assay
