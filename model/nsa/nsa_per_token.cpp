#include "model/nsa/nsa_per_token.h"

#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <limits>
#include <utility>

#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

// What one query reads: rows of k and v, int64 [G, K], and which of them count, bool [G, 1, K];
// undefined: all.
struct TokenKeys {
  at::Tensor rows, visible;
};

struct TokenLoop {
  std::function<TokenKeys(std::int64_t)> keys; // of query t
  double scale = 1;
};

// Keys or values: [N, G, D] -> [G, N, D] in the compute type.
at::Tensor keys_by_group(const at::Tensor& x) {
  return x.to(wide_type(x)).transpose(0, 1).contiguous();
}

// Query t's row: [T, H, D] -> [G, H/G, D] in the compute type.
at::Tensor row_of(const at::Tensor& x, std::int64_t t, std::int64_t groups) {
  return x.select(0, t).to(wide_type(x)).unflatten(0, {groups, -1});
}

// Of one query; k, v and rows [G, K, D], p [G, H/G, K].
struct TokenAttention {
  at::Tensor q, k, v, rows, p;
};

TokenAttention attend_token(
    at::Tensor q, const at::Tensor& k, const at::Tensor& v, const TokenLoop& loop, std::int64_t t) {
  const TokenKeys keys = loop.keys(t);
  TokenAttention one;
  one.q = std::move(q);
  one.rows = keys.rows.unsqueeze(-1).expand({-1, -1, k.size(2)});
  one.k = k.gather(1, one.rows);
  one.v = v.gather(1, one.rows);
  at::Tensor scores = at::bmm(one.q, one.k.transpose(1, 2)).mul_(loop.scale);
  if (keys.visible.defined())
    scores.masked_fill_(keys.visible.logical_not(), -std::numeric_limits<double>::infinity());
  one.p = scores.softmax(-1);
  return one;
}

struct AttendPerToken : torch::autograd::Function<AttendPerToken> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const std::shared_ptr<const TokenLoop>& loop) {
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const at::Tensor keys = keys_by_group(k), values = keys_by_group(v);
    at::Tensor out = at::empty(q.sizes(), v.options());
    for (std::int64_t t = 0; t < q.size(0); ++t) {
      const TokenAttention one = attend_token(row_of(q, t, k.size(1)), keys, values, *loop, t);
      out.select(0, t).copy_(at::bmm(one.p, one.v).flatten(0, 1));
    }
    ctx->save_for_backward({q, k, v});
    ctx->saved_data["loop"] = hold(loop);
    return out;
  }

  // As chunked_attention(), of one query at a time.
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2];
    const auto& loop = held<TokenLoop>(ctx->saved_data["loop"]);
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const at::Tensor keys = keys_by_group(k), values = keys_by_group(v);
    const at::Tensor dq = at::empty_like(q, at::MemoryFormat::Contiguous);
    const at::Tensor dk = at::zeros_like(keys), dv = at::zeros_like(values);
    for (std::int64_t t = 0; t < q.size(0); ++t) {
      const TokenAttention one = attend_token(row_of(q, t, k.size(1)), keys, values, loop, t);
      const at::Tensor d_out = row_of(grads[0], t, k.size(1));
      const at::Tensor dp = at::bmm(d_out, one.v.transpose(1, 2));
      const at::Tensor ds = (dp - (dp * one.p).sum(-1, true)) * one.p * loop.scale;
      dq.select(0, t).copy_(at::bmm(ds, one.k).flatten(0, 1));
      dk.scatter_add_(1, one.rows, at::bmm(ds.transpose(1, 2), one.q));
      dv.scatter_add_(1, one.rows, at::bmm(one.p.transpose(1, 2), d_out));
    }
    return {dq,
            dk.transpose(0, 1).to(k.scalar_type()),
            dv.transpose(0, 1).to(v.scalar_type()),
            at::Tensor()};
  }
};

at::Tensor attend_per_token(const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            std::function<TokenKeys(std::int64_t)> keys,
                            double scale) {
  return AttendPerToken::apply(
      q, k, v, std::make_shared<const TokenLoop>(TokenLoop{std::move(keys), scale}));
}

at::Tensor over_intervals(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const Intervals& intervals,
                          double scale) {
  const at::Tensor first = intervals.first.cpu(), end = intervals.end.cpu();
  const auto keys = [first, end, groups = k.size(1), device = k.device()](std::int64_t t) {
    const at::Tensor rows = at::arange(first.const_data_ptr<std::int64_t>()[t],
                                       end.const_data_ptr<std::int64_t>()[t],
                                       at::TensorOptions().dtype(at::kLong).device(device));
    return TokenKeys{rows.expand({groups, -1}), at::Tensor()};
  };
  return attend_per_token(q, k, v, keys, scale);
}

} // namespace

at::Tensor nsa_compressed_per_token(const at::Tensor& q,
                                    const at::Tensor& k_compressed,
                                    const at::Tensor& v_compressed,
                                    const NsaLayoutPtr& layout,
                                    double scale) {
  return over_intervals(q, k_compressed, v_compressed, layout->compressed, scale);
}

at::Tensor nsa_selected_per_token(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& blocks,
                                  const NsaLayoutPtr& layout,
                                  double scale) {
  const std::int64_t size = layout->shape.select_block;
  const auto keys = [blocks, layout, size](std::int64_t t) {
    const at::Tensor chosen = blocks.select(0, t).unsqueeze(-1); // [G, n, 1]
    const at::Tensor rows = (chosen * size + at::arange(size, chosen.options()))
                                .add_(layout->document_start.select(0, t));
    const at::Tensor visible = chosen.ge(0).logical_and(rows.le(t));
    return TokenKeys{rows.clamp(0, t).flatten(1), visible.flatten(1).unsqueeze(1)};
  };
  return attend_per_token(q, k, v, keys, scale);
}

at::Tensor nsa_window_per_token(const at::Tensor& q,
                                const at::Tensor& k,
                                const at::Tensor& v,
                                const NsaLayoutPtr& layout,
                                double scale) {
  return over_intervals(q, k, v, layout->window, scale);
}

} // namespace assay
