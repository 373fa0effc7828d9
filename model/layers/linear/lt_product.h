// The products of kernels/products/lt_products.h on tensors: matrices in bf16 on a GPU, of any
// strides. Each has a question that must be asked before it, which chooses and keeps an algorithm.
#pragma once

#include <ATen/ATen.h>

#include "model/layers/linear/kept_weights.h"

namespace assay {

// Whether both passes of gelu(x W^T + bias) run as products in `type`: x [T, in] on a GPU, W
// [hidden, in], and a next weight [out, hidden]; bf16, all widths multiples of 8, and algorithms
// for them. `sum`: with the bias's gradient.
bool lt_takes_gelu(const at::Tensor& x,
                   at::ScalarType type,
                   const at::Tensor& weight,
                   const at::Tensor& next,
                   bool sum);

// x [T, in], weight [hidden, in], bias [hidden] -> gelu(in) and in = x W^T + bias, [T, hidden].
// Counts "kernel/lt_gelu".
struct GeluOfProduct {
  at::Tensor y, in;
};
GeluOfProduct lt_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// dy [T, out], weight [out, hidden] and GELU's input [T, hidden] -> the gradient of that input,
// and, where `sum`, its sum over tokens in bf16, else undefined.
struct GradientOfGelu {
  at::Tensor in, bias;
};
GradientOfGelu
lt_gelu_gradient(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& in, bool sum);

// dy [T, out], x [T, in] in bf16 -> dy^T x and the sum of dy over tokens, in fp32.
bool lt_sums_left(const at::Tensor& dy, const at::Tensor& x, at::ScalarType type);
LinearGradients lt_left_sum(const at::Tensor& dy, const at::Tensor& x);

} // namespace assay
