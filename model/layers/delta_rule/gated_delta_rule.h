// Gated delta rule (arXiv 2412.06464, eq. 10; chunk form as arXiv 2406.06484, section 3). Per head,
// with state S [K, V] = 0 at each segment's start:
//   S <- e^{g_t} S;  u = beta_t (v_t - S^T k_t);  S <- S + k_t u^T;  o_t = S^T q_t / sqrt(K)
// The decay comes before the erase term: S_t = e^{g_t} (I - beta k k^T) S + beta k v^T.
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// q, k [T, H, K], v [T, H, V], g (log decay, <= 0) and beta [T, H] -> [T, H, V] in v's dtype.
// The first two compute in fp64 when q is fp64, else in fp32, whatever autocast is. All forms
// reset the state at every segment's start. In the naive and the fused form q and k may have fewer
// heads: head h of v then reads head h / (H / heads of q) of both.

// q or k [T, heads of q, K] for every head of v.
at::Tensor of_value_heads(const at::Tensor& x, std::int64_t heads);

// The recurrence, token by token, through plain autograd: the reference.
at::Tensor gated_delta_rule_naive(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  const Segments& segments);

// Chunks of layout.chunk tokens with a hand-written backward: matrix products over all chunks at
// once, and a scan over the chunks of a segment. Needs segments.chunks.
at::Tensor gated_delta_rule_chunked(const at::Tensor& q,
                                    const at::Tensor& k,
                                    const at::Tensor& v,
                                    const at::Tensor& g,
                                    const at::Tensor& beta,
                                    const Segments& segments);

// The same chunks with another algebra (kernels/delta_rule/problem.h): five CUDA kernels in bf16 on
// a GPU, which needs chunks of 64 tokens and K = V of 32, 64 or 128; tensor operations elsewhere.
at::Tensor gated_delta_rule_fused(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  const Segments& segments);

// The next T tokens of one segment from the state [H, K, V] behind the tokens before, which it
// moves on; undefined: at the segment's start. Chunks of 64 tokens, without a gradient.
at::Tensor gated_delta_rule_piece(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  at::Tensor& state);

using DeltaRule = at::Tensor (*)(const at::Tensor& q,
                                 const at::Tensor& k,
                                 const at::Tensor& v,
                                 const at::Tensor& g,
                                 const at::Tensor& beta,
                                 const Segments& segments);
DeltaRule delta_rule_of(DeltaForm form); // UndecayedErase: a known bug of the recurrence

} // namespace assay
