// Layer normalization over the last axis, in fp32 (fp64 for fp64 inputs).
#pragma once

#include <ATen/ATen.h>

namespace assay {

inline constexpr double kLayerNormEps = 1e-5; // GPT-2's

// (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, in the compute type, by LibTorch's
// operator. x [..., D], weight and bias [D], or undefined: 1 and 0. arXiv 1607.06450, eq. 4.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

} // namespace assay
