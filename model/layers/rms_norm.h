// Root-mean-square and L2 normalization over the last axis, in fp32 (fp64 for fp64 inputs).
#pragma once

#include <ATen/ATen.h>

namespace assay {

inline constexpr double kNormEps = 1e-6;

// x / sqrt(mean(x^2) + eps) * weight, in the compute type. x [..., D], weight [D]. arXiv
// 1910.07467, eq. 4.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight);

// x / sqrt(sum(x^2) + eps) in x's dtype, hand-written backward.
at::Tensor l2_norm(const at::Tensor& x);

} // namespace assay
