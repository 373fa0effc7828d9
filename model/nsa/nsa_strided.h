// The compressed branch of native sparse attention through flash attention, and its choice of
// blocks through one kernel: CUDA, bf16 or fp16. Equal to the tensor operations of nsa.h.
#pragma once

#include <ATen/ATen.h>

#include "model/nsa/nsa.h"

namespace assay {

// Whether the tensors and the layout suit the two functions below.
bool strided_fits(const at::Tensor& v_compressed, const NsaLayout& layout);

// As nsa_compressed_attention: q [T, H, D], k and v [Nc, G, D] of one 16-bit type -> [T, H, D].
at::Tensor strided_attention(const at::Tensor& q,
                             const at::Tensor& k_compressed,
                             const at::Tensor& v_compressed,
                             const NsaLayoutPtr& layout,
                             double scale);

// As nsa_select_blocks: int64 [T, G, n]. No gradient.
at::Tensor strided_select(const at::Tensor& q,
                          const at::Tensor& k_compressed,
                          const NsaLayout& layout,
                          double scale);

} // namespace assay
