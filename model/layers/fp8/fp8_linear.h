// FP8 linears (arXiv 2209.05433: e4m3 forward, e5m2 gradients), one scale a tensor taken from the
// tensor itself (its largest magnitude), products by _scaled_mm with fp32 accumulation.
//
// All three products are in FP8. For the gradient of a weight x and dy are also written transposed:
// per token (in + out) bytes at 4.1 TB/s, 0.24 ps (in + out). The product saves 2 in out FLOPs at
// 1250 instead of 700 TFLOP/s, 0.00126 ps in out. It gains from in out / (in + out) = 194 on; the
// narrowest linear of preset base, 768 to 288, has 209 (rates of one H200, 2026-11-22).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
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
// `slot`: of Fp8Casts::slot(), on x's device; undefined: the cast makes its own. `known`: it holds
// x's largest magnitude already.
Fp8Matrix to_fp8(const at::Tensor& x,
                 at::ScalarType format,
                 Fp8Orders orders,
                 const at::Tensor& slot = {},
                 bool known = false);

// What a step has cast: each weight once, however many micro-batches read it, and the last input,
// which linears that follow one another may share.
class Fp8Casts {
public:
  // [out, in] in e4m3. Counts "fp8/weight_cast".
  const Fp8Matrix& weight(const at::Tensor& weight, Fp8Orders orders);
  // [T, in] in e4m3. Counts "fp8/input_cast", and "fp8/largest_known"
  // (model/layers/fp8/fp8_largest.h) as every cast does that is spared a reading.
  const Fp8Matrix& input(const at::Tensor& x, Fp8Orders orders);
  // Zeros [8] in fp32 for one cast to write its largest value and scale to: one fill serves many.
  at::Tensor slot(const at::Device& device);
  void forget_input() { input_.reset(); }
  void forget() { weights_.clear(), input_.reset(); } // after every change of the weights

private:
  struct Input {
    c10::weak_intrusive_ptr<c10::TensorImpl> x; // while it is held no other tensor has its address
    std::int64_t version;
    Fp8Matrix matrix;
  };
  std::unordered_map<const c10::TensorImpl*, Fp8Matrix> weights_;
  std::optional<Input> input_;
  at::Tensor slots_;
  std::int64_t used_ = 0;
};

// apply_linear() below computes in FP8 while one lives on this thread; null: it does not.
class Fp8Guard {
public:
  explicit Fp8Guard(Fp8Casts* casts);
  ~Fp8Guard(); // forgets the last input
  Fp8Guard(const Fp8Guard&) = delete;
  Fp8Guard& operator=(const Fp8Guard&) = delete;

private:
  Fp8Casts* outer_;
};

// Refuses a GPU without FP8 products: below compute capability 8.9.
void require_fp8(const at::Device& device);

// x W^T + bias: [T, in], [out, in] and [out], or undefined, give [T, out]. In FP8 the result is
// bf16 and `in` must divide by 16; where it does not, and without a guard, this is linear16().
// Counts "fp8/linear", without a guard "fp8/off".
at::Tensor apply_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

} // namespace assay
