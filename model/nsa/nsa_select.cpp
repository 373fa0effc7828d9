#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/span.h"
#include "model/layers/attention/chunked_attention.h"
#include "model/layers/autocast.h"
#include "model/nsa/nsa.h"

namespace assay {

namespace {

// p [G, queries, keys] of the chunk -> [G, queries, blocks]. The cells of compressed blocks that no
// query of the chunk sees add the 0 of a column behind the others.
at::Tensor scatter_overlap(const at::Tensor& p,
                           const NsaLayout& layout,
                           const QueryChunk& keys,
                           const QueryChunk& blocks) {
  count("nsa_overlap/scatter");
  const std::int64_t first = layout.pair_begin[static_cast<std::size_t>(blocks.key_begin)],
                     pairs = layout.pair_begin[static_cast<std::size_t>(blocks.key_end)] - first;
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, pairs); };
  const at::Tensor from = (part(layout.pair_compressed) - keys.key_begin).clamp_max_(keys.keys());
  const at::Tensor weighted =
      at::constant_pad_nd(p, {0, 1}).index_select(2, from) * part(layout.pair_weight);
  return at::zeros({p.size(0), p.size(1), blocks.keys()}, p.options())
      .index_add_(2, part(layout.pair_selection) - blocks.key_begin, weighted);
}

} // namespace

at::Tensor nsa_block_scores(const at::Tensor& q,
                            const at::Tensor& k_compressed,
                            const NsaLayout& layout,
                            std::size_t index,
                            double scale,
                            bool causal) {
  const at::NoGradGuard no_grad;
  const AutocastGuard full_precision(q.device().type(), at::kFloat);
  const QueryChunk &keys = layout.compressed_chunks[index],
                   &blocks = layout.selection_chunks[index];
  const at::Tensor visible =
      causal ? layout.compressed.visible(keys)
             : at::ones({1, keys.queries(), keys.keys()}, q.options().dtype(at::kBool));
  const at::Tensor p = chunk_probabilities(q, k_compressed, keys, visible, scale);
  const at::Tensor summed = p.sum(1); // M is the same for every head
  if (layout.shape.overlap_pairs) return scatter_overlap(summed, layout, keys, blocks);
  count("nsa_overlap/product");
  const at::Tensor overlap = layout.overlap.narrow(0, keys.key_begin, keys.keys())
                                 .narrow(1, blocks.key_begin, blocks.keys())
                                 .to(p.scalar_type());
  return at::matmul(summed, overlap);
}

at::Tensor nsa_top_blocks(const at::Tensor& scores, const NsaLayout& layout, std::size_t index) {
  const at::NoGradGuard no_grad;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::int64_t kUnused = std::numeric_limits<std::int64_t>::max();
  const QueryChunk& chunk = layout.selection_chunks[index];
  const at::Tensor first =
      layout.selection.first.narrow(0, chunk.begin, chunk.queries()).unsqueeze(1);
  const at::Tensor own = layout.token_block.narrow(0, chunk.begin, chunk.queries()).unsqueeze(1);
  const at::Tensor block = at::arange(chunk.key_begin, chunk.key_end, first.options());
  const at::Tensor forced = block.eq(first).logical_or_(block.ge(own - 1)); // [queries, blocks]
  const at::Tensor hidden = layout.selection.visible(chunk).logical_not_();
  const at::Tensor ranked = scores.masked_fill(forced, kInfinity).masked_fill_(hidden, -kInfinity);
  const auto [best, order] = at::sort(ranked, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
  const std::int64_t count = layout.shape.select_count, kept = std::min(count, chunk.keys());
  at::Tensor numbers = (order.narrow(2, 0, kept) + chunk.key_begin - first)
                           .masked_fill_(best.narrow(2, 0, kept).eq(-kInfinity), kUnused);
  numbers = std::get<0>(at::constant_pad_nd(numbers, {0, count - kept}, kUnused).sort(-1));
  return numbers.masked_fill_(numbers.eq(kUnused), -1).transpose(0, 1).contiguous();
}

at::Tensor nsa_select_blocks(const at::Tensor& q,
                             const at::Tensor& k_compressed,
                             const NsaLayout& layout,
                             double scale,
                             bool causal) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < layout.selection_chunks.size(); ++i)
    parts.push_back(
        nsa_top_blocks(nsa_block_scores(q, k_compressed, layout, i, scale, causal), layout, i));
  return at::cat(parts);
}

} // namespace assay
