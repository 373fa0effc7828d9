#include "model/layers/attention/chunked_attention.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <utility>

#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// The chunk's queries, heads of a group below each other: [C, H, D] of [T, H, D] -> [G, H/G*C, D].
at::Tensor grouped(const at::Tensor& x, const QueryChunk& chunk, std::int64_t groups) {
  return x.narrow(0, chunk.begin, chunk.queries())
      .to(wide_type(x))
      .unflatten(1, {groups, x.size(1) / groups})
      .permute({1, 2, 0, 3})
      .reshape({groups, -1, x.size(2)});
}

// [G, H/G*C, D] -> [C, H, D].
at::Tensor ungrouped(const at::Tensor& x, const QueryChunk& chunk) {
  return x.view({x.size(0), -1, chunk.queries(), x.size(2)}).permute({2, 0, 1, 3}).flatten(1, 2);
}

// The chunk's keys or values: [N, G, D] -> [G, keys, D].
at::Tensor keys_of(const at::Tensor& x, const QueryChunk& chunk) {
  return x.narrow(0, chunk.key_begin, chunk.keys()).to(wide_type(x)).transpose(0, 1);
}

// Softmax over the visible keys, 0 everywhere for a query that sees none. query [G, H/G*C, D], key
// [G, keys, D] -> [G, H/G*C, keys].
at::Tensor probabilities(const at::Tensor& query,
                         const at::Tensor& key,
                         const QueryChunk& chunk,
                         const at::Tensor& visible,
                         double scale) {
  const at::Tensor hidden = visible.logical_not().unsqueeze(1);
  const at::Tensor scores =
      at::bmm(query, key.transpose(1, 2))
          .mul_(scale)
          .view({key.size(0), query.size(1) / chunk.queries(), chunk.queries(), chunk.keys()})
          .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  return scores.softmax(-1).masked_fill_(hidden, 0.0).flatten(1, 2);
}

struct Attend : torch::autograd::Function<Attend> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const std::shared_ptr<const ChunkedAttention>& plan) {
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const std::int64_t groups = k.size(1);
    at::Tensor out = at::empty({q.size(0), q.size(1), v.size(2)}, v.options());
    for (const QueryChunk& chunk : plan->chunks) {
      const at::Tensor p = probabilities(
          grouped(q, chunk, groups), keys_of(k, chunk), chunk, plan->visible(chunk), plan->scale);
      out.narrow(0, chunk.begin, chunk.queries())
          .copy_(ungrouped(at::bmm(p, keys_of(v, chunk)), chunk));
    }
    ctx->save_for_backward({q, k, v});
    ctx->saved_data["plan"] = hold(plan);
    return out;
  }

  // P = softmax(S): dV = P^T dO, dP = dO V^T, dS = P * (dP - rowsum(dP * P)), dQ = dS K scale,
  // dK = dS^T Q scale. Rows without a visible key have P = 0 and add nothing.
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto& plan = held<ChunkedAttention>(ctx->saved_data["plan"]);
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const std::int64_t groups = k.size(1);
    const at::Tensor dq = at::empty_like(q, at::MemoryFormat::Contiguous);
    const auto zeros = [&](const at::Tensor& x) { // [G, N, D]
      return at::zeros({x.size(1), x.size(0), x.size(2)}, x.options().dtype(wide_type(x)));
    };
    const at::Tensor dk = zeros(k), dv = zeros(v);
    for (const QueryChunk& chunk : plan.chunks) {
      const at::Tensor query = grouped(q, chunk, groups), key = keys_of(k, chunk);
      const at::Tensor d_out = grouped(grads[0], chunk, groups);
      const at::Tensor p = probabilities(query, key, chunk, plan.visible(chunk), plan.scale);
      const at::Tensor dp = at::bmm(d_out, keys_of(v, chunk).transpose(1, 2));
      const at::Tensor ds = at::_softmax_backward_data(dp, p, -1, p.scalar_type()).mul_(plan.scale);
      dq.narrow(0, chunk.begin, chunk.queries()).copy_(ungrouped(at::bmm(ds, key), chunk));
      dk.narrow(1, chunk.key_begin, chunk.keys()).add_(at::bmm(ds.transpose(1, 2), query));
      dv.narrow(1, chunk.key_begin, chunk.keys()).add_(at::bmm(p.transpose(1, 2), d_out));
    }
    return {dq,
            dk.transpose(0, 1).to(k.scalar_type()),
            dv.transpose(0, 1).to(v.scalar_type()),
            at::Tensor()};
  }
};

} // namespace

at::Tensor chunked_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const std::shared_ptr<const ChunkedAttention>& plan) {
  return Attend::apply(q, k, v, plan);
}

at::Tensor chunk_probabilities(const at::Tensor& q,
                               const at::Tensor& k,
                               const QueryChunk& chunk,
                               const at::Tensor& visible,
                               double scale) {
  const at::NoGradGuard no_grad;
  const AutocastGuard full_precision(q.device().type(), at::kFloat);
  return probabilities(grouped(q, chunk, k.size(1)), keys_of(k, chunk), chunk, visible, scale)
      .view({k.size(1), q.size(1) / k.size(1), chunk.queries(), chunk.keys()});
}

} // namespace assay
