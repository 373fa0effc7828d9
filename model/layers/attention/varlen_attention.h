// The varlen kernel of each device and dtype behind one autograd function.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "model/layout/batch.h"

namespace assay {

// q, k, v [T, H, D] of one width -> [T, H, D]; causal inside each segment. CUDA bf16/fp16: flash
// attention with cu_seqlens; CUDA fp32: memory-efficient attention with cu_seqlens; CPU: the CPU
// flash kernel, segment by segment. k and v may have fewer heads, [T, G, D], shared by H/G of q's,
// except in fp32 on CUDA.
at::Tensor varlen_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            double scale);

// The memory-efficient kernel in every dtype; v may be of another width. CUDA alone.
at::Tensor efficient_attention(const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const Segments& segments,
                               double scale);

// The same over the `window` last tokens up to and with the query's own. CUDA bf16/fp16 alone.
at::Tensor window_attention(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const Segments& segments,
                            double scale,
                            std::int64_t window);

// varlen_attention() with what its softmax sums up to. CUDA bf16/fp16 alone.
struct VarlenResult {
  at::Tensor out; // [T, H, D]
  at::Tensor lse; // fp32 [H, T]: ln sum exp(scale q k) over the keys that a query sees; no gradient
};
VarlenResult varlen_attention_with_lse(const at::Tensor& q,
                                       const at::Tensor& k,
                                       const at::Tensor& v,
                                       const Segments& segments,
                                       double scale);

} // namespace assay
