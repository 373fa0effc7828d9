// Bias and GELU of a feed-forward layer as one function instead of an operator per step.
#pragma once

#include <ATen/ATen.h>

namespace assay {

// gelu(in + bias) in the tanh form (arXiv 1606.08415, section 2): in [T, F], bias [F] -> [T, F] in
// in's dtype; fp32 inside (fp64 for fp64). On a GPU in bf16 with an fp32 bias one kernel each way,
// which needs F to be a multiple of 8; elsewhere LibTorch's operators in the wide type. Keeps
// `in` for the backward pass. The bias's gradient is added up in a fixed order.
at::Tensor fused_bias_gelu(const at::Tensor& in, const at::Tensor& bias);

} // namespace assay
