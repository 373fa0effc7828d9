#include "model/nsa/nsa.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <utility>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/attention/chunked_attention.h"
#include "model/layers/attention/varlen_attention.h"
#include "model/layers/autograd_holder.h"
#include "model/nsa/nsa_per_token.h"
#include "model/nsa/nsa_ranges.h"
#include "model/nsa/nsa_strided.h"
#include "model/nsa/selected_attention.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct Compress : torch::autograd::Function<Compress> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const NsaLayoutPtr& layout) {
    ctx->saved_data["layout"] = hold(layout);
    return nsa_block_means(x, *layout);
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const auto& layout = held<NsaLayout>(ctx->saved_data["layout"]);
    return {nsa_block_means_gradient(grads[0], layout), at::Tensor()};
  }
};

at::Tensor attend(const at::Tensor& q,
                  const at::Tensor& k,
                  const at::Tensor& v,
                  const std::vector<QueryChunk>& chunks,
                  std::function<at::Tensor(const QueryChunk&)> visible,
                  double scale) {
  const auto plan =
      std::make_shared<const ChunkedAttention>(ChunkedAttention{chunks, std::move(visible), scale});
  return chunked_attention(q, k, v, plan);
}

const char* form_counter(NsaForm form) {
  switch (form) {
  case NsaForm::PerToken:
    return "nsa_form/per_token";
  case NsaForm::Batched:
    return "nsa_form/batched";
  case NsaForm::FirstValue:
    return "nsa_form/first_value";
  case NsaForm::FutureScores:
    return "nsa_form/future_scores";
  }
  internal_error("unknown form of sparse attention");
}

// A known bug: the value of a block's first token stands for the block.
at::Tensor first_values(const at::Tensor& v, const NsaLayout& layout) {
  return v.index_select(
      0, layout.block_tokens.view({layout.compressed_blocks, layout.shape.block}).select(1, 0));
}

} // namespace

at::Tensor nsa_block_means(const at::Tensor& x, const NsaLayout& layout) {
  return x.index_select(0, layout.block_tokens)
      .view({layout.compressed_blocks, layout.shape.block, x.size(1), x.size(2)})
      .mean(1);
}

at::Tensor nsa_block_means_gradient(const at::Tensor& dy, const NsaLayout& layout) {
  const at::Tensor padded = at::constant_pad_nd(dy / static_cast<double>(layout.shape.block),
                                                {0, 0, 0, 0, 0, 1}); // block Nc: none
  at::Tensor dx = padded.index_select(0, layout.token_blocks[0]);
  for (std::int64_t j = 1; j < layout.token_blocks.size(0); ++j)
    dx.add_(padded.index_select(0, layout.token_blocks[j]));
  return dx;
}

at::Tensor nsa_compress(const at::Tensor& x, const NsaLayoutPtr& layout) {
  return Compress::apply(x, layout);
}

at::Tensor nsa_compressed_attention(const at::Tensor& q,
                                    const at::Tensor& k_compressed,
                                    const at::Tensor& v_compressed,
                                    const NsaLayoutPtr& layout,
                                    double scale) {
  const auto visible = [layout](const QueryChunk& chunk) {
    return layout->compressed.visible(chunk);
  };
  return attend(q, k_compressed, v_compressed, layout->compressed_chunks, visible, scale);
}

at::Tensor nsa_chosen(const at::Tensor& blocks, const NsaLayout& layout, NsaRanges form) {
  const at::Tensor row = blocks.unsqueeze(0), position = layout.position.unsqueeze(0);
  const std::int64_t size = layout.shape.select_block;
  switch (form) {
  case NsaRanges::V1:
    return ranges_looped(row, size, position).squeeze(0);
  case NsaRanges::V2a:
    return ranges_tensor(row, size, position).squeeze(0);
  case NsaRanges::V2b:
    return ranges_kernel(row, size, position).squeeze(0);
  case NsaRanges::Direct: {
    const Span span("nsa_ranges/direct"); // nothing to do: the proof that this level ran
    return blocks;
  }
  }
  internal_error("unknown form of ranges");
}

at::Tensor nsa_selected_attention(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& blocks,
                                  const NsaLayoutPtr& layout,
                                  double scale,
                                  NsaRanges form) {
  const Selection selection{
      nsa_chosen(blocks, *layout, form), layout->document_start, layout->shape.select_block};
  const at::ScalarType type = v.scalar_type(); // rotation leaves queries and keys in fp32
  return selected_attention(q.to(type), k.to(type), v, selection, scale);
}

at::Tensor nsa_window_attention(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const NsaLayoutPtr& layout,
                                double scale) {
  const at::ScalarType type = v.scalar_type();
  if (v.is_cuda() && (type == at::kBFloat16 || type == at::kHalf))
    return window_attention(
        q.to(type), k.to(type), v, layout->documents, scale, layout->shape.window);
  const auto visible = [layout](const QueryChunk& chunk) { return layout->window.visible(chunk); };
  return attend(q, k, v, layout->window_chunks, visible, scale);
}

at::Tensor nsa_mix(const std::array<at::Tensor, 3>& branches, const at::Tensor& gates) {
  const std::int64_t groups = gates.size(1);
  const std::vector<at::Tensor> gate = gates.unsqueeze(2).split(1, 3); // three of [T, G, 1, 1]
  at::Tensor sum;
  for (std::size_t c = 0; c < branches.size(); ++c) {
    const at::Tensor part = branches[c].unflatten(1, {groups, -1}) * gate[c];
    sum = c == 0 ? part : sum + part;
  }
  return sum.flatten(1, 2).to(branches[0].scalar_type());
}

NsaStatistics read_nsa_statistics(const at::Tensor& gates, const at::Tensor& blocks) {
  const at::Tensor counts = blocks.ge(0).sum(-1).to(at::kDouble).mean().view(1);
  const at::Tensor host =
      at::cat({gates.detach().to(at::kDouble).flatten(0, 1).mean(0), counts}).to(at::kCPU);
  const double* values = host.const_data_ptr<double>();
  return {{values[0], values[1], values[2]}, values[3]};
}

at::Tensor nsa_attention(const NsaInputs& in, const NsaLayoutPtr& layout) {
  const auto spanned = [](const char* name, const auto& run) {
    const Span span(name);
    return run();
  };
  count(form_counter(in.form));
  const bool loop = in.form == NsaForm::PerToken;
  at::Tensor k_compressed, v_compressed;
  {
    const Span span("nsa/compress");
    k_compressed = nsa_compress(in.k_cmp, layout);
    v_compressed = in.form == NsaForm::FirstValue ? first_values(in.v_cmp, *layout)
                                                  : nsa_compress(in.v_cmp, layout);
  }
  // Rotation leaves queries and keys in fp32; the 16-bit kernels want the values' type.
  const bool fast = !loop && strided_fits(in.q, v_compressed, *layout);
  const at::Tensor q = fast ? in.q.to(v_compressed.scalar_type()) : in.q;
  if (fast) k_compressed = k_compressed.to(v_compressed.scalar_type());
  at::Tensor lse;
  const at::Tensor compressed = spanned("nsa/compressed", [&] {
    if (loop) return nsa_compressed_per_token(q, k_compressed, v_compressed, layout, in.scale);
    if (!fast) return nsa_compressed_attention(q, k_compressed, v_compressed, layout, in.scale);
    const VarlenResult result = strided_attention(q, k_compressed, v_compressed, layout, in.scale);
    lse = result.lse;
    return result.out;
  });
  const at::Tensor blocks = spanned("nsa/select", [&] {
    const bool causal = in.form != NsaForm::FutureScores;
    return fast && causal && !layout->shape.overlap_pairs
               ? strided_select(q, k_compressed, lse, *layout, in.scale)
               : nsa_select_blocks(q, k_compressed, *layout, in.scale, causal);
  });
  const at::Tensor selected = spanned("nsa/selected", [&] {
    return loop
               ? nsa_selected_per_token(q, in.k_sel, in.v_sel, blocks, layout, in.scale)
               : nsa_selected_attention(q, in.k_sel, in.v_sel, blocks, layout, in.scale, in.ranges);
  });
  const at::Tensor window = spanned("nsa/window", [&] {
    return (loop ? nsa_window_per_token
                 : nsa_window_attention)(q, in.k_win, in.v_win, layout, in.scale);
  });
  if (in.read_statistics) (void)read_nsa_statistics(in.gates, blocks);
  return nsa_mix({compressed, selected, window}, in.gates);
}

} // namespace assay
