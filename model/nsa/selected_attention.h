// Attention of every query over the key blocks that it selected: NSA's selected branch (arXiv
// 2502.11089, section 3.3.2), over packed documents, with a hand-written backward.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "kernels/nsa/selected_attention/selected_problem.h"

namespace assay {

// T queries, G key-value groups, n slots. Tokens are counted from the start of the query's own
// document, so that nothing outside it can be selected; tokens after the query are left out.
struct Selection {
  at::Tensor chosen; // either blocks, int64 [T, G, n]: block b is [b l', (b+1) l'); < 0:
                     // unused; in any order; repeated ones count once;
                     // or ranges of such blocks, int32 [T, G, n, 2], exactly as ranges_*
                     // gives them (model/nsa/nsa_ranges.h): not checked, for that would wait
  at::Tensor document_start;    // int32 [T]: the first token of each token's document
  std::int64_t block_size = 64; // l'
};

// q [T, H, d], k, v [T, G, d] of one dtype, H a multiple of G: head i reads group i / (H / G).
// -> [T, H, d] = softmax(scale q k^T) v over the selected tokens; 0 where nothing is selected.
// CUDA bf16, fp16 and fp32: our kernels, for d of 64 or 128, H / G <= 16, n <= 32 and l' of 16, 32,
// 64 or 128 (else bad input). They add up the gradients of k and v with fp32 atomics: equal from
// run to run up to rounding, not bitwise. Elsewhere: the tensor form. Counts
// "kernel/selected_attention_<blocks|ranges>" or "kernel/selected_tensor_form".
at::Tensor selected_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const Selection& selection,
                              double scale);

// The same by plain tensor operations on any device and dtype, some queries at a time: gathers the
// selected tokens and computes in fp32 (fp64 for fp64). The reference.
at::Tensor selected_attention_tensor_form(const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          const Selection& selection,
                                          double scale);

// What the kernels load: contiguous and on a 16-byte border, copied where x is not.
at::Tensor loadable(const at::Tensor& x);
ElementType element_type(at::ScalarType type);

} // namespace assay
