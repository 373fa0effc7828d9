// Linears in 8-bit integers, for evaluation and generation: no gradient passes through them
// (optimization `int8`).
#pragma once

#include <ATen/ATen.h>

#include <unordered_map>

namespace assay {

// Rows as integers times a scale of each row: x = scale * integers, |x| <= 127 scale.
struct Int8Rows {
  at::Tensor integers; // [R, C], int8
  at::Tensor scales;   // [R, 1], fp32
};

Int8Rows to_int8(const at::Tensor& x);

// The weights of a model in integers, a scale for each output. A weight is rounded on its first
// use: whoever changes weights calls clear().
class Int8Weights {
public:
  const Int8Rows& of(const at::Tensor& weight);
  void clear() { rows_.clear(); }
  std::size_t size() const { return rows_.size(); }

private:
  std::unordered_map<const at::TensorImpl*, Int8Rows> rows_;
};

// apply_linear() (model/layers/fp8/fp8_linear.h) computes in integers while one lives on this
// thread; null: it does not.
class Int8Guard {
public:
  explicit Int8Guard(Int8Weights* weights);
  ~Int8Guard();
  Int8Guard(const Int8Guard&) = delete;
  Int8Guard& operator=(const Int8Guard&) = delete;

private:
  Int8Weights* outer_;
};

Int8Weights* int8_weights_of_thread();

// x W^T + bias: [T, in], [out, in] and [out], or undefined, give [T, out] in x's type. Both
// operands are rounded to integers, x by token; their product is one of integers (LibTorch's
// _int_mm), exact in 32 bits up to 133,000 columns. Counts "int8/linear". On a GPU the product
// needs more than 16 tokens, and `in` and `out` in multiples of 8: others are linear16(), and count
// "fallback/int8" (core/fallback.h).
at::Tensor
int8_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, Int8Weights& to);

} // namespace assay
