// Norms of the residual stream and of the delta rule's output, fused with what stands beside them.
#pragma once

#include <ATen/ATen.h>

#include <utility>

namespace assay {

// {x + branch, norm(x + branch) * weight + bias}: x [T, D] is the residual stream, an undefined
// branch adds nothing. Without a bias the norm is rms_norm (rms_norm.h), with one it is layer_norm
// (layer_norm.h). The sum has x's dtype, the normed rows that of autocast, or x's without it. A
// 16-bit stream is added to in fp32 and normed as it is stored, and its gradient has its dtype.
// Gradients of both results flow back in one pass. On a GPU, from an fp32 or bf16 stream to bf16
// rows, one kernel each way, which needs D to be a multiple of 8 up to 1024.
//
// `to`, here and below: weight of a linear that reads the result, which only FP8 linears do;
// undefined: others do. Where its scale is known before (fp8_delayed_slot()), the forward kernel of
// an RMS norm writes FP8 alone and the result is fp8_only().
std::pair<at::Tensor, at::Tensor> add_norm(const at::Tensor& x,
                                           const at::Tensor& branch,
                                           const at::Tensor& weight,
                                           const at::Tensor& bias = {},
                                           const at::Tensor& to = {});

// norm(o) * weight * silu(gate), the norm over the last axis: o [T, H, D], gate [T, H, D] (any row
// stride), weight [D] -> [T, H, D] in the type of autocast, or
// the gate's without it. On a GPU from bf16 to bf16 one kernel each way, D 32, 64 or
// 128.
at::Tensor gated_norm(const at::Tensor& o,
                      const at::Tensor& gate,
                      const at::Tensor& weight,
                      const at::Tensor& to = {});

} // namespace assay
