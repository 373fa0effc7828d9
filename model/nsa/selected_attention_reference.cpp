#include "model/nsa/selected_attention_reference.h"

#include <ATen/OpMathType.h>

#include <algorithm>
#include <limits>

#include "model/layers/autocast.h"

namespace assay {

namespace {

constexpr std::int64_t kGathered = std::int64_t{1} << 22; // elements of K and of V at a time

// The tokens that the queries of a part selected: M = n l' places, those in use first or not.
struct Gather {
  at::Tensor row;     // int64 [c G M]: g T + token
  at::Tensor visible; // bool [c, G, 1, M]
};

struct Places {
  at::Tensor token, used; // [c, G, M], counted from the document's start
};

// Sorted, so that a repeated block is next to its first.
Places places_of_blocks(const at::Tensor& blocks, std::int64_t block_size) {
  const at::Tensor id = std::get<0>(blocks.sort(-1));
  const std::int64_t n = id.size(-1);
  const at::Tensor before = at::constant_pad_nd(id.narrow(-1, 0, n - 1), {1, 0}, -1);
  const at::Tensor used = id.ge(0).logical_and_(id.ne(before)).unsqueeze(-1);
  const at::Tensor token =
      (id * block_size).unsqueeze(-1) + at::arange(block_size, blocks.options());
  return {token.flatten(-2), used.expand_as(token).flatten(-2)};
}

// Place m is in the first range at whose end more than m tokens are counted.
Places places_of_ranges(const at::Tensor& ranges, std::int64_t block_size) {
  const at::Tensor start = ranges.select(-1, 0).to(at::kLong);
  const at::Tensor length = ranges.select(-1, 1).to(at::kLong) - start;
  const at::Tensor counted = length.cumsum(-1);
  const std::int64_t n = start.size(-1);
  const at::Tensor place = at::arange(n * block_size, start.options())
                               .expand({start.size(0), start.size(1), n * block_size})
                               .contiguous();
  const at::Tensor range = at::searchsorted(counted, place, false, true).clamp_max(n - 1);
  const at::Tensor offset = place - (counted - length).gather(-1, range);
  return {start.gather(-1, range) + offset, place.lt(counted.narrow(-1, n - 1, 1))};
}

Gather gather_of(const Selection& selection, std::int64_t first, std::int64_t count) {
  const at::Tensor chosen = selection.chosen.narrow(0, first, count);
  const Places places = chosen.dim() == 4 ? places_of_ranges(chosen, selection.block_size)
                                          : places_of_blocks(chosen, selection.block_size);
  const at::TensorOptions options = chosen.options().dtype(at::kLong);
  const at::Tensor start =
      selection.document_start.narrow(0, first, count).to(at::kLong).view({count, 1, 1});
  const at::Tensor position = at::arange(first, first + count, options).view({count, 1, 1}) - start;
  const at::Tensor visible = places.used.logical_and(places.token.le(position));
  const at::Tensor token = places.token.masked_fill(visible.logical_not(), 0) + start;
  const at::Tensor group = at::arange(chosen.size(1), options).view({1, -1, 1});
  const at::Tensor row = token + group * selection.chosen.size(0);
  return {row.flatten(), visible.unsqueeze(2)};
}

// k and v as [G T, d], q as [T, G, h, d], in the type of the computation.
struct Operands {
  at::Tensor q, k, v;
  std::int64_t part; // queries at a time

  Operands(const at::Tensor& query,
           const at::Tensor& key,
           const at::Tensor& value,
           const Selection& selection) {
    const at::ScalarType type = at::toOpMathType(query.scalar_type());
    const std::int64_t groups = key.size(1), width = key.size(2);
    q = query.to(type).reshape({query.size(0), groups, query.size(1) / groups, width});
    k = key.to(type).transpose(0, 1).reshape({-1, width});
    v = value.to(type).transpose(0, 1).reshape({-1, width});
    const std::int64_t places = selection.chosen.size(2) * selection.block_size;
    part =
        std::max<std::int64_t>(1, kGathered / std::max<std::int64_t>(1, groups * places * width));
  }

  at::Tensor rows(const at::Tensor& from, const Gather& gather) const {
    const at::Tensor& shape = gather.visible; // [c, G, 1, M]
    return from.index_select(0, gather.row)
        .view({shape.size(0), shape.size(1), shape.size(3), from.size(1)});
  }
};

at::Tensor
scores(const at::Tensor& query, const at::Tensor& keys, const Gather& gather, double scale) {
  return at::matmul(query, keys.transpose(-2, -1))
      .mul_(scale)
      .masked_fill_(gather.visible.logical_not(), -std::numeric_limits<double>::infinity());
}

// exp(score - lse), 0 where nothing is selected (there lse is -inf).
at::Tensor weights(const at::Tensor& score, const at::Tensor& lse) {
  return (score - lse.masked_fill(lse.isinf(), 0)).exp_();
}

} // namespace

SelectedForward selected_tensor_forward(const at::Tensor& q,
                                        const at::Tensor& k,
                                        const at::Tensor& v,
                                        const Selection& selection,
                                        double scale) {
  const AutocastGuard plain(q.device().type(), at::kFloat); // at::matmul would round its inputs
  const Operands in(q, k, v, selection);
  const at::Tensor out = at::zeros_like(in.q);
  const at::Tensor lse = at::full({in.q.size(0), in.q.size(1), in.q.size(2), 1},
                                  -std::numeric_limits<double>::infinity(),
                                  in.q.options());
  for (std::int64_t first = 0; selection.chosen.size(2) > 0 && first < q.size(0);
       first += in.part) {
    const std::int64_t count = std::min(in.part, q.size(0) - first);
    const Gather gather = gather_of(selection, first, count);
    const at::Tensor score =
        scores(in.q.narrow(0, first, count), in.rows(in.k, gather), gather, scale);
    const at::Tensor total = score.logsumexp(-1, true);
    lse.narrow(0, first, count).copy_(total);
    out.narrow(0, first, count).copy_(at::matmul(weights(score, total), in.rows(in.v, gather)));
  }
  return {out.view(q.sizes()).to(q.scalar_type()), lse.view({q.size(0), q.size(1)})};
}

SelectedBackward selected_tensor_backward(const at::Tensor& grad,
                                          const at::Tensor& q,
                                          const at::Tensor& k,
                                          const at::Tensor& v,
                                          const SelectedForward& forward,
                                          const Selection& selection,
                                          double scale) {
  const AutocastGuard plain(q.device().type(), at::kFloat); // at::matmul would round its inputs
  const Operands in(q, k, v, selection);
  const at::Tensor grad_out = grad.to(in.q.scalar_type()).reshape(in.q.sizes());
  const at::Tensor delta =
      (grad_out * forward.out.to(in.q.scalar_type()).view(in.q.sizes())).sum(-1, true);
  const at::Tensor lse = forward.lse.view({in.q.size(0), in.q.size(1), in.q.size(2), 1});
  at::Tensor grad_q = at::zeros_like(in.q), grad_k = at::zeros_like(in.k),
             grad_v = at::zeros_like(in.v);
  for (std::int64_t first = 0; selection.chosen.size(2) > 0 && first < q.size(0);
       first += in.part) {
    const std::int64_t count = std::min(in.part, q.size(0) - first);
    const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, count); };
    const Gather gather = gather_of(selection, first, count);
    const at::Tensor keys = in.rows(in.k, gather), values = in.rows(in.v, gather);
    const at::Tensor weight = weights(scores(part(in.q), keys, gather, scale), part(lse));
    const at::Tensor grad_score =
        (at::matmul(part(grad_out), values.transpose(-2, -1)) - part(delta)).mul_(weight);
    part(grad_q).copy_(at::matmul(grad_score, keys).mul_(scale));
    const auto add = [&](at::Tensor& to, const at::Tensor& of_heads, const at::Tensor& rows) {
      to.index_add_(0, gather.row, at::matmul(of_heads.transpose(-2, -1), rows).flatten(0, 2));
    };
    add(grad_k, grad_score.mul_(scale), part(in.q));
    add(grad_v, weight, part(grad_out));
  }
  const auto as_given = [](const at::Tensor& x, const at::Tensor& like) {
    return x.view({like.size(1), like.size(0), like.size(2)})
        .transpose(0, 1)
        .contiguous()
        .to(like.scalar_type());
  };
  return {grad_q.view(q.sizes()).to(q.scalar_type()), as_given(grad_k, k), as_given(grad_v, v)};
}

} // namespace assay
