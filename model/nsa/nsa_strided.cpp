#include "model/nsa/nsa_strided.h"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/nsa_select.h"
#include "model/layers/attention/varlen_attention.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// Rows of x at `from`, zeros where it is negative. `to` is the inverse, so that the backward moves
// rows too and needs no atomics.
struct MoveRows : torch::autograd::Function<MoveRows> {
  static at::Tensor move(const at::Tensor& x, const at::Tensor& from) {
    return x.index_select(0, from.clamp_min(0)).masked_fill_(from.lt(0).view({-1, 1, 1}), 0.0);
  }
  static at::Tensor
  forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& from, const at::Tensor& to) {
    ctx->save_for_backward({to});
    return move(x, from);
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    return {move(grads[0], ctx->get_saved_variables()[0]), at::Tensor(), at::Tensor()};
  }
};

// [T, H, D] -> [Nc, H*d, D]: head h of the i-th of d queries becomes head h*d + i.
at::Tensor strided(const at::Tensor& q, const NsaLayout& layout) {
  return MoveRows::apply(q, layout.strided_token, layout.strided_place)
      .unflatten(0, {-1, layout.shape.stride})
      .transpose(1, 2)
      .flatten(1, 2);
}

// ln of the softmax's denominator of every query, fp32 [T, H].
at::Tensor logsumexp(const at::Tensor& q,
                     const at::Tensor& k_compressed,
                     const NsaLayout& layout,
                     double scale) {
  const at::Tensor lse = varlen_logsumexp(
      strided(q, layout), k_compressed, layout.compressed_documents, scale); // [H*d, Nc]
  const at::Tensor places =
      lse.unflatten(0, {q.size(1), layout.shape.stride}).permute({2, 1, 0}).flatten(0, 1);
  return places.index_select(0, layout.strided_place.clamp_min(0));
}

} // namespace

bool strided_fits(const at::Tensor& v_compressed, const NsaLayout& layout) {
  const at::ScalarType type = v_compressed.scalar_type();
  const std::int64_t blocks = layout.documents.max_len / layout.shape.select_block + 1;
  const auto fits = [&](const QueryChunk& chunk) { return select_fits(chunk.keys(), blocks); };
  return v_compressed.is_cuda() && (type == at::kBFloat16 || type == at::kHalf) &&
         layout.compressed_blocks > 0 &&
         std::all_of(layout.compressed_chunks.begin(), layout.compressed_chunks.end(), fits);
}

at::Tensor strided_attention(const at::Tensor& q,
                             const at::Tensor& k_compressed,
                             const at::Tensor& v_compressed,
                             const NsaLayoutPtr& layout,
                             double scale) {
  const at::Tensor out = varlen_attention(
      strided(q, *layout), k_compressed, v_compressed, layout->compressed_documents, scale);
  const at::Tensor places = out.unflatten(1, {q.size(1), layout->shape.stride})
                                .transpose(1, 2)
                                .flatten(0, 1); // [Nc*d, H, D]
  return MoveRows::apply(places, layout->strided_place, layout->strided_token);
}

at::Tensor strided_select(const at::Tensor& q,
                          const at::Tensor& k_compressed,
                          const NsaLayout& layout,
                          double scale) {
  const at::NoGradGuard no_grad;
  const NsaShape& shape = layout.shape;
  const std::int64_t heads = q.size(1), groups = k_compressed.size(1);
  const at::Tensor lse = logsumexp(q, k_compressed, layout, scale);
  const at::Tensor blocks =
      at::empty({layout.tokens, groups, shape.select_count}, layout.token_block.options());
  const at::Tensor by_head = q.transpose(0, 1).contiguous(); // [H, T, D]
  const c10::cuda::CUDAGuard device(q.device());
  for (const QueryChunk& chunk : layout.compressed_chunks) {
    const at::Tensor query = by_head.narrow(1, chunk.begin, chunk.queries())
                                 .reshape({groups, -1, q.size(2)}); // [G, H/G*C, D]
    const at::Tensor key = k_compressed.narrow(0, chunk.key_begin, chunk.keys()).permute({1, 2, 0});
    const at::Tensor scores = at::bmm(query, key, at::kFloat); // [G, H/G*C, K]
    SelectProblem problem;
    problem.scores = scores.const_data_ptr<float>();
    problem.lse = lse.const_data_ptr<float>() + chunk.begin * heads;
    problem.first = layout.compressed.first.const_data_ptr<std::int64_t>() + chunk.begin;
    problem.end = layout.compressed.end.const_data_ptr<std::int64_t>() + chunk.begin;
    problem.position = layout.position.const_data_ptr<std::int32_t>() + chunk.begin;
    problem.blocks =
        blocks.mutable_data_ptr<std::int64_t>() + chunk.begin * groups * shape.select_count;
    problem.queries = chunk.queries();
    problem.keys = chunk.keys();
    problem.key_begin = chunk.key_begin;
    problem.groups = static_cast<int>(groups);
    problem.heads_per_group = static_cast<int>(heads / groups);
    problem.compressed_per_select = static_cast<int>(shape.select_block / shape.stride);
    problem.compressed_overlap = static_cast<int>(shape.block / shape.stride);
    problem.select_block = static_cast<int>(shape.select_block);
    problem.count = static_cast<int>(shape.select_count);
    problem.most_blocks = static_cast<int>(layout.documents.max_len / shape.select_block + 1);
    problem.scale = static_cast<float>(scale);
    ASSAY_CUDA(launch_nsa_select(problem, c10::cuda::getCurrentCUDAStream().stream()));
  }
  return blocks;
}

} // namespace assay
