// Notation of docs/model.md, "Gated delta rule": gamma is the running sum of g inside a chunk, L_ij
// = e^{gamma_i - gamma_j} for i >= j (only differences are exponentiated: e^{-gamma} alone
// overflows), A the strictly lower part of diag(beta) K K^T * L, [U | W] = (I + A)^{-1} diag(beta)
// [V | e^gamma K]. The batch axis is R = N*H, step-major.
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/chunk_rows.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

// What both directions need of the inputs.
struct Decays {
  at::Tensor gamma;      // [R, C, 1]
  at::Tensor from_start; // e^{gamma_i} [R, C, 1]
  at::Tensor to_end;     // e^{gamma_C - gamma_i} [R, C, 1]
  at::Tensor whole;      // e^{gamma_C} [R, 1, 1]
};

Decays decays_of(const at::Tensor& g) {
  Decays d;
  d.gamma = g.cumsum(1);
  const at::Tensor last = d.gamma.narrow(1, d.gamma.size(1) - 1, 1);
  d.from_start = d.gamma.exp();
  d.to_end = (last - d.gamma).exp_();
  d.whole = last.exp();
  return d;
}

at::Tensor pair_decay(const at::Tensor& gamma, const at::Tensor& above) {
  return (gamma - gamma.transpose(1, 2))
      .masked_fill_(above, -std::numeric_limits<double>::infinity())
      .exp_();
}

// Runs the state through the chunks: fills states [R, K, V] (the state that enters each chunk) and
// turns `update` (U on entry) into V' = U - W S.
void scan_states(const ChunkLayout& layout,
                 const at::Tensor& w,
                 const at::Tensor& k_to_end,
                 const at::Tensor& whole,
                 at::Tensor& update,
                 at::Tensor& states) {
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < layout.step_chunks.size(); ++s) {
    const std::int64_t size = layout.step_chunks[s] * layout.heads;
    at::Tensor state = states.narrow(0, begin, size), here = update.narrow(0, begin, size);
    if (s == 0)
      state.zero_();
    else
      here.baddbmm_(w.narrow(0, begin, size), state, 1, -1);
    if (s + 1 < layout.step_chunks.size()) {
      const std::int64_t next = layout.step_chunks[s + 1] * layout.heads;
      at::Tensor after = states.narrow(0, begin + size, next);
      at::mul_out(after, state.narrow(0, 0, next), whole.narrow(0, begin, next));
      after.baddbmm_(k_to_end.narrow(0, begin, next).transpose(1, 2), here.narrow(0, 0, next));
    }
    begin += size;
  }
}

// Runs the gradient of the state backwards: fills d_states (the gradient of the state that leaves
// each chunk; 0 where the segment ends) and adds its part to d_update = dV'.
void scan_gradients(const ChunkLayout& layout,
                    const at::Tensor& w,
                    const at::Tensor& k_to_end,
                    const at::Tensor& whole,
                    const at::Tensor& d_read, // (Q e^gamma)^T dO [R, K, V]
                    at::Tensor& d_update,
                    at::Tensor& d_states) {
  std::int64_t end = d_update.size(0);
  std::int64_t next = 0; // rows of the following step
  for (std::size_t s = layout.step_chunks.size(); s-- > 0;) {
    const std::int64_t size = layout.step_chunks[s] * layout.heads, begin = end - size;
    at::Tensor here = d_update.narrow(0, begin, size);
    const at::Tensor leaving = d_states.narrow(0, begin, next);
    if (next > 0) here.narrow(0, 0, next).baddbmm_(k_to_end.narrow(0, begin, next), leaving);
    if (s > 0) {
      const std::int64_t before = begin - layout.step_chunks[s - 1] * layout.heads;
      at::Tensor entering = d_states.narrow(0, before, size);
      at::baddbmm_out(entering,
                      d_read.narrow(0, begin, size),
                      w.narrow(0, begin, size).transpose(1, 2),
                      here,
                      1,
                      -1);
      if (next > 0) entering.narrow(0, 0, next).addcmul_(leaving, whole.narrow(0, begin, next));
    }
    end = begin;
    next = size;
  }
}

struct ChunkedDeltaRule : torch::autograd::Function<ChunkedDeltaRule> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const at::Tensor& g,
                            const at::Tensor& beta,
                            const LayoutPtr& layout) {
    const Span span("delta_rule/chunked_ops");
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const at::ScalarType type = wide_type(q);
    const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
    const std::int64_t width = v.size(2);
    const at::Tensor query = to_chunks(q, *layout, type).mul_(scale);
    const at::Tensor key = to_masked_chunks(k, *layout, type);
    const at::Tensor value = to_chunks(v, *layout, type);
    const at::Tensor rate = to_masked_chunks(beta.unsqueeze(2), *layout, type);
    const Decays d = decays_of(to_masked_chunks(g.unsqueeze(2), *layout, type));

    const at::Tensor pairs = pair_decay(d.gamma, layout->above); // L
    const at::Tensor key_t = key.transpose(1, 2);
    const at::Tensor gram = at::bmm(key, key_t);        // K K^T
    const at::Tensor erase = (gram * pairs).mul_(rate); // A and a diagonal that nobody reads
    const at::Tensor uw = at::linalg_solve_triangular(
        erase, at::cat({value, key * d.from_start}, 2).mul_(rate), false, true, true);
    at::Tensor update = uw.narrow(2, 0, width).contiguous();
    const at::Tensor k_to_end = key * d.to_end;
    at::Tensor states = at::empty({query.size(0), query.size(2), width}, query.options());
    scan_states(*layout, uw.narrow(2, width, key.size(2)), k_to_end, d.whole, update, states);

    const at::Tensor scores = at::bmm(query, key_t).mul_(pairs); // P
    at::Tensor out = at::bmm(scores, update);
    if (layout->step_chunks.size() > 1) out.baddbmm_(query * d.from_start, states);
    ctx->save_for_backward(
        {query, key, value, rate, d.gamma, pairs, gram, erase, uw, update, states, scores});
    ctx->saved_data["layout"] = hold(layout);
    const auto keep_type = [ctx](const char* name, const at::Tensor& input) {
      ctx->saved_data[name] = static_cast<std::int64_t>(input.scalar_type());
    };
    keep_type("q", q), keep_type("k", k), keep_type("v", v), keep_type("g", g),
        keep_type("beta", beta);
    return to_tokens(out, *layout, v.scalar_type());
  }

  // The derivation, symbol by symbol, is in docs/model.md, "Backward of the chunk form".
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &query = saved[0], &key = saved[1], &value = saved[2], &rate = saved[3],
                     &gamma = saved[4], &pairs = saved[5], &gram = saved[6], &erase = saved[7],
                     &uw = saved[8], &update = saved[9], &states = saved[10], &scores = saved[11];
    const std::int64_t width = value.size(2), last = layout.chunk - 1;
    const double scale = 1.0 / std::sqrt(static_cast<double>(key.size(2)));
    const at::Tensor d_out = to_masked_chunks(grads[0], layout, key.scalar_type());
    const at::Tensor from_start = gamma.exp(), end = gamma.narrow(1, last, 1);
    const at::Tensor to_end = (end - gamma).exp_(), whole = end.exp();

    at::Tensor d_update = at::bmm(scores.transpose(1, 2), d_out); // dV'
    at::Tensor d_states = at::zeros_like(states);                 // dS+ of every chunk
    const at::Tensor d_read = at::bmm((query * from_start).transpose(1, 2), d_out);
    scan_gradients(
        layout, uw.narrow(2, width, key.size(2)), key * to_end, whole, d_read, d_update, d_states);

    const at::Tensor d_w = at::bmm(d_update, states.transpose(1, 2)).neg_();
    const at::Tensor solved = at::linalg_solve_triangular(
        erase.transpose(1, 2), at::cat({d_update, d_w}, 2), true, true, true); // [U~ | W~]
    const at::Tensor u = solved.narrow(2, 0, width), w = solved.narrow(2, width, key.size(2));
    const at::Tensor d_scores = at::bmm(d_out, update.transpose(1, 2)).mul_(pairs); // dP * L
    const at::Tensor d_erase =
        at::bmm(solved, uw.transpose(1, 2)).neg_().tril_(-1).mul_(pairs); // dA * L
    const at::Tensor d_gram = d_erase * rate;                             // Gamma
    const at::Tensor erase_pairs = d_erase * gram;
    const at::Tensor read =
        at::bmm(d_out, states.transpose(1, 2)).mul_(from_start); // e^gamma dO S^T
    const at::Tensor kept =
        at::bmm(update, d_states.transpose(1, 2)).mul_(to_end); // e^{gamma_C-gamma} V' dS+^T

    at::Tensor d_query = at::baddbmm(read, d_scores, key).mul_(scale);
    at::Tensor d_key = at::baddbmm(kept, d_scores.transpose(1, 2), query)
                           .addcmul_(rate * from_start, w)
                           .baddbmm_(d_gram + d_gram.transpose(1, 2), key);
    const at::Tensor w_key = (w * key).sum(2, true).mul_(from_start); // e^gamma rowsum(W~ * K)
    const at::Tensor d_rate = (u * value).sum(2, true).add_(w_key).add_(erase_pairs.sum(2, true));
    const at::Tensor kept_sum = (key * kept).sum(2, true); // Z
    const at::Tensor decay_pairs =
        at::bmm(query, key.transpose(1, 2)).mul_(d_scores).addcmul_(erase_pairs, rate); // E
    at::Tensor d_gamma = decay_pairs.sum(2, true)
                             .sub_(decay_pairs.sum(1).unsqueeze(2))
                             .add_((query * read).sum(2, true))
                             .addcmul_(rate, w_key)
                             .sub_(kept_sum);
    d_gamma.narrow(1, last, 1)
        .add_(kept_sum.sum(1, true))
        .addcmul_(whole, (states * d_states).sum({1, 2}).view({-1, 1, 1}));
    const at::Tensor d_g = d_gamma.flip(1).cumsum(1).flip(1);
    return {to_tokens(d_query, layout, grad_type(ctx, "q")),
            to_tokens(d_key, layout, grad_type(ctx, "k")),
            to_tokens(u * rate, layout, grad_type(ctx, "v")),
            to_tokens(d_g, layout, grad_type(ctx, "g")).squeeze(2),
            to_tokens(d_rate, layout, grad_type(ctx, "beta")).squeeze(2),
            at::Tensor()};
  }

  static at::ScalarType grad_type(AutogradContext* ctx, const char* input) {
    return static_cast<at::ScalarType>(ctx->saved_data[input].toInt());
  }
};

} // namespace

at::Tensor gated_delta_rule_chunked(const at::Tensor& q,
                                    const at::Tensor& k,
                                    const at::Tensor& v,
                                    const at::Tensor& g,
                                    const at::Tensor& beta,
                                    const Segments& segments) {
  if (segments.chunks == nullptr) internal_error("the chunked delta rule needs a prepared batch");
  if (segments.chunks->heads != q.size(1) || segments.chunks->tokens != q.size(0))
    internal_error("the batch was prepared for {} tokens of {} heads, not {} of {}",
                   segments.chunks->tokens,
                   segments.chunks->heads,
                   q.size(0),
                   q.size(1));
  return ChunkedDeltaRule::apply(q, k, v, g, beta, segments.chunks);
}

} // namespace assay
