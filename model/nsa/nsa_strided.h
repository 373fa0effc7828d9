// The compressed branch of native sparse attention through flash attention, and its choice of
// blocks through one kernel: CUDA, bf16 or fp16. Equal to the tensor operations of nsa.h.
#pragma once

#include <ATen/ATen.h>

#include "model/layers/attention/varlen_attention.h"
#include "model/nsa/nsa.h"

namespace assay {

// Whether the tensors and the layout suit the functions below. q [T, H, D], v_compressed [Nc, G,
// D].
bool strided_fits(const at::Tensor& q, const at::Tensor& v_compressed, const NsaLayout& layout);

// As nsa_compressed_attention: q [T, H, D], k and v [Nc, G, D] of one 16-bit type; out [T, H, D],
// lse as places_attention().
VarlenResult strided_attention(const at::Tensor& q,
                               const at::Tensor& k_compressed,
                               const at::Tensor& v_compressed,
                               const NsaLayoutPtr& layout,
                               double scale);

// The same where queries are in their places already: q and out [Nc, H*d, D], head h of the i-th of
// d queries of a position at h*d + i; lse fp32 [H*d, Nc].
VarlenResult places_attention(const at::Tensor& q,
                              const at::Tensor& k_compressed,
                              const at::Tensor& v_compressed,
                              const NsaLayout& layout,
                              double scale);

// As nsa_select_blocks: int64 [T, G, n]. No gradient. `lse`: of attention over the compressed
// blocks.
at::Tensor strided_select(const at::Tensor& q,
                          const at::Tensor& k_compressed,
                          const at::Tensor& lse,
                          const NsaLayout& layout,
                          double scale);

} // namespace assay
