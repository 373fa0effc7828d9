// Short causal convolution: depthwise over time, then SiLU, with its history reset at every
// segment's start.
#pragma once

#include <ATen/ATen.h>

namespace assay {

// x [T, C], weight [C, kernel], taps [kernel-1, T, 1] (ChunkLayout::taps) -> [T, C] in x's dtype:
// y_t = silu(sum_j weight[:, j] x_{t-j}) over the j with t-j in the segment of t. Computes in fp32
// (fp64 for fp64).
at::Tensor short_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& taps);

// Of the rows of `joined` [kernel-1 + T, C] behind the first kernel-1, which are those before a
// piece of a sequence (Carry::with_rows_before): [T, C].
at::Tensor short_conv_piece(const at::Tensor& joined, const at::Tensor& weight);

// Its sums before SiLU, and their gradients, for functions with a backward of their own: x and
// d_sum in the type that is computed in.
at::Tensor tap_sums(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& taps);
struct TapGradients {
  at::Tensor x, weight;
};
TapGradients tap_gradients(const at::Tensor& d_sum,
                           const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& taps);

} // namespace assay
