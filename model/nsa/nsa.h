// Native sparse attention (NSA, arXiv 2502.11089, section 3) over packed documents. A query attends
// three times, and a gate mixes the outputs:
// - compressed: means of K and V over blocks of l tokens, stride d, that end at or before it
//   (eq. 7);
// - selected: the tokens up to itself of n blocks of l' tokens that its group of heads chose from
//   the compressed probabilities (eq. 8-12);
// - window: its last w tokens.
// Blocks, windows and selection are counted from the document's start and never leave it.
//
// T tokens, H heads in G groups, D wide; Nc compressed blocks. The plain tensor operations are the
// reference: softmax in fp64 when q is fp64, else in fp32, whatever autocast is. On CUDA in bf16
// and fp16 kernels take their place (nsa_strided.h, selected_attention.h, varlen_attention.h).
// Results in the values' dtype. Everything is on layout's device and waits for nothing.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <memory>

#include "model/config/train_config.h"
#include "model/layout/nsa_layout.h"

namespace assay {

using NsaLayoutPtr = std::shared_ptr<const NsaLayout>;

// phi of eq. 7 as a mean: x [T, G, D] (rotated keys, or values) -> [Nc, G, D].
at::Tensor nsa_compress(const at::Tensor& x, const NsaLayoutPtr& layout);

// The same without autograd, and its gradient: dx_t = sum of dy_i / l over the blocks i with token
// t. It gathers, so that it needs no atomics.
at::Tensor nsa_block_means(const at::Tensor& x, const NsaLayout& layout);
at::Tensor nsa_block_means_gradient(const at::Tensor& dy, const NsaLayout& layout);

// Scores of a chunk's selection blocks: p_cmp M (eq. 9) summed over the heads of each group (eq.
// 10). q [T, H, D], k_compressed [Nc, G, D], `index`: of the chunk in layout's lists -> [G,
// queries, blocks of selection_chunks[index]] in the compute type. No gradient. A product with M,
// or with shape.overlap_pairs a sum over its cells that are not 0. Not `causal`: a known bug,
// blocks that end after the query take part in the softmax.
at::Tensor nsa_block_scores(const at::Tensor& q,
                            const at::Tensor& k_compressed,
                            const NsaLayout& layout,
                            std::size_t index,
                            double scale,
                            bool causal = true);

// The n best of the blocks that begin at or before each query (eq. 11): the document's first block,
// the query's own and the one before are always among them, and of equal scores the earlier block
// wins. scores as above -> int64 [queries, G, n]: blocks counted from the document's start,
// ascending, then -1 where there are fewer than n.
at::Tensor nsa_top_blocks(const at::Tensor& scores, const NsaLayout& layout, std::size_t index);

// Both over all chunks: int64 [T, G, n]. What range conversion and kernels consume.
at::Tensor nsa_select_blocks(const at::Tensor& q,
                             const at::Tensor& k_compressed,
                             const NsaLayout& layout,
                             double scale,
                             bool causal = true);

// The three branches: [T, H, D]. A query before the end of its document's first compressed block
// sees none; its compressed output is 0.
at::Tensor nsa_compressed_attention(const at::Tensor& q,
                                    const at::Tensor& k_compressed,
                                    const at::Tensor& v_compressed,
                                    const NsaLayoutPtr& layout,
                                    double scale);
// blocks as of nsa_select_blocks (eq. 12, and attention as eq. 3). `form` chooses how they reach
// attention: as ranges or as block numbers.
at::Tensor nsa_selected_attention(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& blocks,
                                  const NsaLayoutPtr& layout,
                                  double scale,
                                  NsaRanges form = NsaRanges::Direct);
// int32 [T, G, n, 2]: what the forms but Direct turn the blocks into; Direct: the blocks.
at::Tensor nsa_chosen(const at::Tensor& blocks, const NsaLayout& layout, NsaRanges form);
// CUDA bf16/fp16: flash attention with a window.
at::Tensor nsa_window_attention(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const NsaLayoutPtr& layout,
                                double scale);

// o = sum over the branches c of g_c o_c (eq. 5). branches: three of [T, H, D]; gates [T, G, 3] in
// the order compressed, selected, window.
at::Tensor nsa_mix(const std::array<at::Tensor, 3>& branches, const at::Tensor& gates);

// Means over tokens and groups, read by the host: the gate of each branch, and how many blocks a
// query selects. Waits for the device. blocks as of nsa_select_blocks.
struct NsaStatistics {
  std::array<double, 3> gates{};
  double selected_blocks = 0;
};
NsaStatistics read_nsa_statistics(const at::Tensor& gates, const at::Tensor& blocks);

struct NsaInputs {
  at::Tensor q;                   // [T, H, D], rotated
  at::Tensor k_cmp, k_sel, k_win; // [T, G, D], rotated
  at::Tensor v_cmp, v_sel, v_win; // [T, G, D]
  at::Tensor gates;               // [T, G, 3]
  double scale = 1;               // of the scores, 1/sqrt(D)
  NsaRanges ranges = NsaRanges::Direct;
  NsaForm form = NsaForm::Batched;
  bool read_statistics = false; // after the branches, as a print of them does
};

// All of the above: [T, H, D]. NsaForm::PerToken: the branches of nsa_per_token.h. Opens spans
// "nsa/compress", "nsa/select", "nsa/compressed", "nsa/selected", "nsa/window".
at::Tensor nsa_attention(const NsaInputs& in, const NsaLayoutPtr& layout);

} // namespace assay
