// Forward and backward of selected attention by plain tensor operations
// (model/nsa/selected_attention.h has the autograd function over them).
#pragma once

#include <ATen/ATen.h>

#include "model/nsa/selected_attention.h"

namespace assay {

struct SelectedForward {
  at::Tensor out; // [T, H, d] in q's dtype
  at::Tensor lse; // [T, H], fp32 (fp64 for fp64): log-sum-exp of the scaled scores; -inf: nothing
};

struct SelectedBackward {
  at::Tensor grad_q, grad_k, grad_v; // as q, k, v
};

SelectedForward selected_tensor_forward(const at::Tensor& q,
                                        const at::Tensor& k,
                                        const at::Tensor& v,
                                        const Selection& selection,
                                        double scale);

// delta = sum_d dO O; p = exp(score - lse); dS = p (dO V^T - delta); dQ = scale dS K;
// dK = scale dS^T Q; dV = p^T dO (arXiv 2205.14135, appendix B.4).
SelectedBackward selected_tensor_backward(const at::Tensor& grad,
                                          const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          const SelectedForward& forward,
                                          const Selection& selection,
                                          double scale);

} // namespace assay
