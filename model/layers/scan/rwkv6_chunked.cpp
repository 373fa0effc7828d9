// Notation of docs/rwmba.md. A_ij = sum over channels of r_i k_j e^{w_{j+1} + ... + w_{i-1}} for
// i > j; A_ii has u. A pair i > j belongs to the level m (a power of two) at which i and j lie in
// the second and the first half of one block of 2m tokens. ChannelDecays run from a pair's tokens
// to the middle of the block, sums of w over distinct tokens: no factor exceeds 1, and none is a
// difference of sums.
#include <torch/csrc/autograd/custom_function.h>

#include <memory>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/scan/chunk_scan.h"
#include "model/layers/scan/input_types.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layout/chunk_rows.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

// Sums of w over the tokens before each one, along `axis`.
at::Tensor sum_before(const at::Tensor& w, std::int64_t axis) {
  at::Tensor none = at::zeros_like(w.narrow(axis, 0, 1));
  if (w.size(axis) == 1) return none;
  return at::cat({none, w.narrow(axis, 0, w.size(axis) - 1).cumsum(axis)}, axis);
}

// Sums of w over the tokens behind each one.
at::Tensor sum_behind(const at::Tensor& w, std::int64_t axis) {
  return sum_before(w.flip(axis), axis).flip(axis);
}

struct ChannelDecays {
  at::Tensor from_start; // e^{sum of w before i} [R, C, K]
  at::Tensor to_end;     // e^{sum of w behind j} [R, C, K]
  at::Tensor whole;      // e^{sum of w} [R, K, 1]
};

ChannelDecays channel_decays(const at::Tensor& w) {
  return {sum_before(w, 1).exp_(), sum_behind(w, 1).exp_(), w.sum(1).exp_().unsqueeze(2)};
}

// One level: halves of blocks as [R * blocks, m, K], and their decays to the middle of the block.
struct Level {
  std::int64_t half;
  at::Tensor first_decay, second_decay;

  Level(const at::Tensor& w, std::int64_t m) : half(m) {
    const at::Tensor blocks = w.view({w.size(0), -1, 2, m, w.size(2)});
    first_decay = sum_behind(blocks.select(2, 0), 2).exp_().flatten(0, 1);
    second_decay = sum_before(blocks.select(2, 1), 2).exp_().flatten(0, 1);
  }
  // x [R, C, K]; `which`: 0 or 1.
  at::Tensor of(const at::Tensor& x, int which) const {
    return x.view({x.size(0), -1, 2, half, x.size(2)}).select(2, which).flatten(0, 1);
  }
  // Adds y [R * blocks, m, K] to that half of x.
  void add(at::Tensor& x, int which, const at::Tensor& y) const {
    at::Tensor part = x.view({x.size(0), -1, 2, half, x.size(2)}).select(2, which);
    part.add_(y.view_as(part));
  }
};

// The pairs of a level in `a` [R, C, C], second halves by first halves: [R, blocks, m, m].
at::Tensor pairs_of(const at::Tensor& a, std::int64_t half) {
  const std::int64_t blocks = a.size(1) / (2 * half);
  return a.view({a.size(0), blocks, 2 * half, blocks, 2 * half})
      .diagonal(0, 1, 3)     // [R, 2m, 2m, blocks]
      .permute({0, 3, 1, 2}) // [R, blocks, 2m, 2m]
      .narrow(2, half, half)
      .narrow(3, 0, half);
}

// u [H, K] of every chunk: [R, 1, K].
at::Tensor of_chunks(const at::Tensor& u, const ChunkLayout& layout) {
  return u.repeat({layout.chunks, 1}).unsqueeze(1);
}

at::Tensor scores_of(const at::Tensor& read, const at::Tensor& key, const at::Tensor& w) {
  at::Tensor scores = at::zeros({read.size(0), read.size(1), read.size(1)}, read.options());
  for (std::int64_t m = 1; m < read.size(1); m *= 2) {
    const Level level(w, m);
    at::Tensor pairs = pairs_of(scores, m);
    pairs.copy_(at::bmm(level.of(read, 1) * level.second_decay,
                        (level.of(key, 0) * level.first_decay).transpose(1, 2))
                    .view(pairs.sizes()));
  }
  return scores;
}

struct ChunkedRwkv6 : torch::autograd::Function<ChunkedRwkv6> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& r,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const at::Tensor& w,
                            const at::Tensor& u,
                            const LayoutPtr& layout) {
    const AutocastGuard full_precision(r.device().type(), at::kFloat);
    const at::ScalarType type = wide_type(r);
    const at::Tensor read = to_chunks(r, *layout, type);
    const at::Tensor key = to_masked_chunks(k, *layout, type);
    const at::Tensor value = to_chunks(v, *layout, type);
    const at::Tensor decay = to_masked_chunks(w, *layout, type);
    const at::Tensor bonus = of_chunks(u.to(type), *layout);
    const ChannelDecays d = channel_decays(decay);
    at::Tensor scores = scores_of(read, key, decay); // A
    scores.diagonal(0, 1, 2).copy_((read * key * bonus).sum(2));
    const at::Tensor states =
        entering_states(*layout, d.whole, at::bmm((key * d.to_end).transpose(1, 2), value));
    at::Tensor out = at::bmm(scores, value);
    if (layout->step_chunks.size() > 1) out.baddbmm_(read * d.from_start, states);
    ctx->save_for_backward({read, key, value, decay, bonus, scores, states});
    ctx->saved_data["layout"] = hold(layout);
    ctx->saved_data["types"] = types_of({r, k, v, w, u});
    return to_tokens(out, *layout, v.scalar_type());
  }

  // The derivation is in docs/rwmba.md, "Backward of the chunk forms".
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &read = saved[0], &key = saved[1], &value = saved[2], &decay = saved[3],
                     &bonus = saved[4], &scores = saved[5], &states = saved[6];
    const ChannelDecays d = channel_decays(decay);
    const at::Tensor d_out = to_masked_chunks(grads[0], layout, read.scalar_type());
    const at::Tensor leaving = leaving_gradients(
        layout, d.whole, at::bmm((read * d.from_start).transpose(1, 2), d_out)); // D
    const at::Tensor d_value =
        at::bmm(scores.transpose(1, 2), d_out).baddbmm_(key * d.to_end, leaving);
    const at::Tensor d_scores = at::bmm(d_out, value.transpose(1, 2)); // dA

    // What the states bring, then the pairs of every level but that of neighbours, which have no
    // decay between them.
    at::Tensor d_read = at::bmm(d_out, states.transpose(1, 2)).mul_(d.from_start);
    at::Tensor d_key = at::bmm(value, leaving.transpose(1, 2)).mul_(d.to_end);
    const at::Tensor written = (key * d_key).sum(1, true);
    for (std::int64_t m = 2; m < layout.chunk; m *= 2)
      add_pairs(m, read, key, decay, d_scores, d_read, d_key);
    const at::Tensor at_read = read * d_read, at_key = key * d_key; // rho, kappa
    const at::Tensor d_decay =
        sum_behind(at_read - at_key, 1)
            .sub_(at_key)
            .add_(written)
            .add_((states * leaving).sum(2).mul_(d.whole.squeeze(2)).unsqueeze(1));
    if (layout.chunk > 1) add_pairs(1, read, key, decay, d_scores, d_read, d_key);
    const at::Tensor own = d_scores.diagonal(0, 1, 2).unsqueeze(2); // [R, C, 1]
    d_read.addcmul_(own * bonus, key);
    d_key.addcmul_(own * bonus, read);
    const at::Tensor d_bonus =
        (own * read * key).sum(1).view({layout.chunks, layout.heads, read.size(2)}).sum(0);
    const at::ScalarType type = read.scalar_type();
    return of_types({to_tokens(d_read, layout, type),
                     to_tokens(d_key, layout, type),
                     to_tokens(d_value, layout, type),
                     to_tokens(d_decay, layout, type),
                     d_bonus},
                    ctx->saved_data["types"]);
  }

  static void add_pairs(std::int64_t m,
                        const at::Tensor& read,
                        const at::Tensor& key,
                        const at::Tensor& decay,
                        const at::Tensor& d_scores,
                        at::Tensor& d_read,
                        at::Tensor& d_key) {
    const Level level(decay, m);
    const at::Tensor pairs = pairs_of(d_scores, m).reshape({-1, m, m});
    level.add(
        d_read, 1, at::bmm(pairs, level.of(key, 0) * level.first_decay).mul_(level.second_decay));
    level.add(d_key,
              0,
              at::bmm(pairs.transpose(1, 2), level.of(read, 1) * level.second_decay)
                  .mul_(level.first_decay));
  }
};

} // namespace

at::Tensor rwkv6_chunked(const at::Tensor& r,
                         const at::Tensor& k,
                         const at::Tensor& v,
                         const at::Tensor& w,
                         const at::Tensor& u,
                         const Segments& segments) {
  const Span span("scan/chunked");
  return rwkv6_in_operators(r, k, v, w, u, segments);
}

at::Tensor rwkv6_in_operators(const at::Tensor& r,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const at::Tensor& w,
                              const at::Tensor& u,
                              const Segments& segments) {
  if (segments.chunks == nullptr) internal_error("the chunked scan needs a prepared batch");
  const std::int64_t chunk = segments.chunks->chunk;
  if ((chunk & (chunk - 1)) != 0) internal_error("chunks of {} tokens, no power of two", chunk);
  return ChunkedRwkv6::apply(r, k, v, w, u, segments.chunks);
}

} // namespace assay
