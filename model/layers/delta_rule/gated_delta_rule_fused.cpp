// The algebra of kernels/delta_rule/problem.h: by its kernels on a GPU in bf16, and in tensor
// operations over all chunks at once elsewhere. Unlike the chunked form it needs neither U, W nor a
// gradient of the inverse, and keeps gamma, T, V' and the states; the kernels keep P too.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <memory>
#include <tuple>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/delta_rule/delta_rule.h"
#include "model/layers/autocast.h"
#include "model/layers/autograd_holder.h"
#include "model/layers/bf16_data.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layout/chunk_rows.h"
#include "model/layout/segments.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;
using LayoutPtr = std::shared_ptr<const ChunkLayout>;

// What the forward keeps. The two forms lay it out differently; each reads only its own.
struct Kept {
  at::Tensor decay, inverse, scores, update, states;
};

struct Inputs {
  at::Tensor q, k, v, g, beta;
};

struct RuleGradients {
  at::Tensor q, k, v, g, beta;
};

// The way back from of_value_heads(): the sum over a key head's value heads.
at::Tensor of_key_heads(const at::Tensor& x, std::int64_t heads_k) {
  return x.size(1) == heads_k ? x : x.unflatten(1, {heads_k, -1}).sum(2);
}

// --- On a GPU: q, k, v bf16 [T, heads, D], g and beta fp32 [T, H], all contiguous. ---------------

delta_rule::Problem problem_of(const Inputs& in, Kept& kept, const ChunkLayout& layout) {
  delta_rule::Problem p{};
  p.q = bf16_data(in.q), p.k = bf16_data(in.k), p.v = bf16_data(in.v);
  p.g = in.g.const_data_ptr<float>(), p.beta = in.beta.const_data_ptr<float>();
  p.chunk = static_cast<const int2*>(layout.spans.const_data_ptr());
  p.first = layout.segment_chunks.const_data_ptr<std::int32_t>();
  p.decay = static_cast<float2*>(kept.decay.data_ptr());
  p.inverse = bf16_data(kept.inverse), p.scores = bf16_data(kept.scores);
  p.update = bf16_data(kept.update), p.states = bf16_data(kept.states);
  p.heads_k = static_cast<int>(in.q.size(1)), p.heads = static_cast<int>(in.v.size(1));
  p.chunks = static_cast<int>(layout.chunks);
  p.segments = static_cast<int>(layout.segment_chunks.size(0) - 1);
  p.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.q.size(2))));
  return p;
}

// Room for what pieces of chains do to a state.
struct Pieces {
  at::Tensor effects, starts;

  explicit Pieces(delta_rule::Problem& p, const Inputs& in) {
    const std::int64_t width = in.v.size(2);
    p.pieces = delta_rule::best_pieces(p, static_cast<int>(width));
    if (p.pieces == 1) return;
    effects = at::empty({p.segments, p.heads, p.pieces, 2, width, width}, in.g.options());
    starts = at::empty({p.segments, p.heads, p.pieces, width, width}, in.g.options());
    p.effects = effects.data_ptr<float>(), p.starts = starts.data_ptr<float>();
  }
};

std::tuple<at::Tensor, Kept> device_forward(const Inputs& in, const ChunkLayout& layout) {
  const c10::cuda::CUDAGuard guard(in.q.device());
  const std::int64_t heads = in.v.size(1), width = in.v.size(2), chunk = layout.chunk;
  Kept kept;
  kept.decay = at::empty({layout.chunks, heads, chunk, 2}, in.g.options());
  kept.inverse = at::empty({layout.chunks, heads, chunk, chunk}, in.q.options());
  kept.scores = at::empty_like(kept.inverse);
  kept.update = at::empty_like(in.v);
  kept.states = at::empty({layout.chunks, heads, width, width}, in.q.options());
  at::Tensor out = at::empty_like(in.v);
  delta_rule::Problem p = problem_of(in, kept, layout);
  p.out = bf16_data(out);
  const Pieces pieces(p, in);
  delta_rule::launch_forward(p, static_cast<int>(width), c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "gated delta rule, forward");
  return {out, kept};
}

RuleGradients
device_backward(const Inputs& in, Kept& kept, const at::Tensor& grad, const ChunkLayout& layout) {
  const c10::cuda::CUDAGuard guard(in.q.device());
  const at::Tensor d_out = grad.to(at::kBFloat16).contiguous();
  at::Tensor d_states = at::empty_like(kept.states);
  RuleGradients d{at::empty_like(in.q),
                  at::empty_like(in.k),
                  at::empty_like(in.v),
                  at::empty_like(in.g),
                  at::empty_like(in.beta)};
  delta_rule::Gradients b{};
  b.problem = problem_of(in, kept, layout);
  const Pieces pieces(b.problem, in);
  b.d_out = bf16_data(d_out), b.d_states = bf16_data(d_states);
  b.dq = bf16_data(d.q), b.dk = bf16_data(d.k), b.dv = bf16_data(d.v);
  b.dg = d.g.data_ptr<float>(), b.d_beta = d.beta.data_ptr<float>();
  delta_rule::launch_backward(b, static_cast<int>(in.v.size(2)), c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "gated delta rule, backward");
  return d;
}

// --- Anywhere: batches R = N H of chunks, step-major (ChunkLayout), in fp32 or fp64. -------------

struct Chunks {
  at::Tensor q, k, v, beta, gamma;      // [R, C, D] or [R, C, 1]
  at::Tensor pairs;                     // L [R, C, C]
  at::Tensor from_start, to_end, whole; // e^gamma, e^{gamma_C - gamma} [R, C, 1]; [R, 1, 1]
  double scale = 1;

  Chunks(const Inputs& in, const ChunkLayout& layout)
      : scale(1.0 / std::sqrt(static_cast<double>(in.q.size(2)))) {
    const at::ScalarType type = wide_type(in.q);
    q = to_chunks(of_value_heads(in.q, in.v.size(1)), layout, type);
    v = to_chunks(in.v, layout, type);
    k = to_masked_chunks(of_value_heads(in.k, in.v.size(1)), layout, type);
    beta = to_masked_chunks(in.beta.unsqueeze(2), layout, type);
    gamma = to_masked_chunks(in.g.unsqueeze(2), layout, type).cumsum(1);
    pairs = (gamma - gamma.transpose(1, 2))
                .masked_fill_(layout.above, -std::numeric_limits<double>::infinity())
                .exp_();
    const at::Tensor last = gamma.narrow(1, layout.chunk - 1, 1);
    from_start = gamma.exp(), to_end = (last - gamma).exp_(), whole = last.exp();
  }
};

// Rows of scan step `s`, and how many of them the next step continues.
struct Step {
  std::int64_t begin, size, next;
};
std::vector<Step> steps_of(const ChunkLayout& layout) {
  std::vector<Step> steps;
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < layout.step_chunks.size(); ++s) {
    const std::int64_t size = layout.step_chunks[s] * layout.heads;
    const bool last = s + 1 == layout.step_chunks.size();
    steps.push_back({begin, size, last ? 0 : layout.step_chunks[s + 1] * layout.heads});
    begin += size;
  }
  return steps;
}

std::tuple<at::Tensor, Kept> plain_forward(const Inputs& in, const ChunkLayout& layout) {
  const Chunks c(in, layout);
  const at::Tensor identity = at::eye(layout.chunk, c.k.options());
  const at::Tensor erase = at::bmm(c.k, c.k.transpose(1, 2)).mul_(c.pairs).mul_(c.beta).tril(-1);
  Kept kept;
  kept.decay = c.gamma;
  kept.inverse =
      at::linalg_solve_triangular(erase + identity, identity.expand_as(erase), false, true, true);
  kept.update = at::empty_like(c.v);
  kept.states = at::zeros({c.k.size(0), c.k.size(2), c.v.size(2)}, c.k.options());
  for (const Step& step : steps_of(layout)) {
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, step.begin, step.size); };
    const at::Tensor state = rows(kept.states);
    const at::Tensor rest =
        (rows(c.v) - rows(c.from_start) * at::bmm(rows(c.k), state)).mul_(rows(c.beta));
    const at::Tensor update = at::bmm(rows(kept.inverse), rest);
    rows(kept.update).copy_(update);
    if (step.next == 0) continue;
    const auto first = [&](const at::Tensor& x) { return x.narrow(0, 0, step.next); };
    kept.states.narrow(0, step.begin + step.size, step.next)
        .copy_(at::baddbmm(first(state) * first(rows(c.whole)),
                           first(rows(c.k)).transpose(1, 2),
                           first(rows(c.to_end)) * first(update)));
  }
  const at::Tensor scores = at::bmm(c.q, c.k.transpose(1, 2)).mul_(c.pairs);
  const at::Tensor out =
      at::baddbmm(at::bmm(c.q, kept.states).mul_(c.from_start), scores, kept.update).mul_(c.scale);
  return {to_tokens(out, layout, c.k.scalar_type()), kept};
}

RuleGradients
plain_backward(const Inputs& in, Kept& kept, const at::Tensor& grad, const ChunkLayout& layout) {
  const Chunks c(in, layout);
  const at::Tensor d_out = to_masked_chunks(grad, layout, c.q.scalar_type());
  const at::Tensor read = c.from_start * d_out * c.scale; // scale 2^gamma dO
  const at::Tensor scores = at::bmm(c.q, c.k.transpose(1, 2)).mul_(c.pairs).mul_(c.scale);
  at::Tensor d_update = at::bmm(scores.transpose(1, 2), d_out), d_v = at::empty_like(c.v);
  at::Tensor d_states = at::zeros_like(kept.states); // dS+
  const std::vector<Step> steps = steps_of(layout);
  for (std::size_t s = steps.size(); s-- > 0;) {
    const Step& step = steps[s];
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, step.begin, step.size); };
    const at::Tensor leaving = rows(d_states);
    const at::Tensor through = rows(d_update) + rows(c.to_end) * at::bmm(rows(c.k), leaving); // dV'
    rows(d_v).copy_(at::bmm(rows(kept.inverse).transpose(1, 2), through).mul_(rows(c.beta)));
    if (s == 0) continue;
    const at::Tensor entering =
        at::baddbmm(leaving * rows(c.whole), rows(c.q).transpose(1, 2), rows(read)) -
        at::bmm(rows(c.k).transpose(1, 2), rows(c.from_start) * rows(d_v));
    d_states.narrow(0, steps[s - 1].begin, step.size).copy_(entering);
  }
  const at::Tensor x = at::bmm(d_out, kept.update.transpose(1, 2)).mul_(c.pairs).mul_(c.scale);
  const at::Tensor products = at::bmm(d_v, kept.update.transpose(1, 2)); // dV V'^T
  const at::Tensor y = (products * c.pairs).tril(-1).neg_();
  const at::Tensor stay = at::bmm(kept.update, d_states.transpose(1, 2)).mul_(c.to_end);
  const at::Tensor d_q = at::baddbmm(at::bmm(read, kept.states.transpose(1, 2)), x, c.k);
  const at::Tensor k1 = at::baddbmm(stay, x.transpose(1, 2), c.q);
  const at::Tensor k2 = at::bmm(y, c.k) - c.from_start * at::bmm(d_v, kept.states.transpose(1, 2));
  const at::Tensor k3 = at::bmm(y.transpose(1, 2), c.k);
  at::Tensor d_gamma = ((c.q * d_q) + c.k * (k2 - k1 - k3)).sum(2, true);
  d_gamma.narrow(1, layout.chunk - 1, 1)
      .add_((c.k * stay).sum({1, 2}, true))
      .add_(c.whole * (kept.states * d_states).sum({1, 2}, true));
  const at::Tensor rate =
      products.diagonal(0, 1, 2).unsqueeze(2) / c.beta.square(); // dV . V' / beta^2
  return {of_key_heads(to_tokens(d_q, layout, c.k.scalar_type()), in.q.size(1)),
          of_key_heads(to_tokens(k1 + k2 + k3, layout, c.k.scalar_type()), in.k.size(1)),
          to_tokens(d_v, layout, c.k.scalar_type()),
          to_tokens(d_gamma.flip(1).cumsum(1).flip(1), layout, c.k.scalar_type()).squeeze(2),
          to_tokens(rate.masked_fill(c.beta.eq(0), 0), layout, c.k.scalar_type()).squeeze(2)};
}

// -------------------------------------------------------------------------------------------------

struct FusedDeltaRule : torch::autograd::Function<FusedDeltaRule> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& q,
                            const at::Tensor& k,
                            const at::Tensor& v,
                            const at::Tensor& g,
                            const at::Tensor& beta,
                            const LayoutPtr& layout) {
    const AutocastGuard full_precision(q.device().type(), at::kFloat);
    const Span span("delta_rule/fused");
    const bool device = q.is_cuda();
    const auto narrow = [&](const at::Tensor& x) {
      return device ? x.to(at::kBFloat16).contiguous() : x;
    };
    const auto wide = [&](const at::Tensor& x) {
      return device ? x.to(at::kFloat).contiguous() : x;
    };
    const Inputs in{narrow(q), narrow(k), narrow(v), wide(g), wide(beta)};
    const auto [out, kept] = device ? device_forward(in, *layout) : plain_forward(in, *layout);
    ctx->save_for_backward({in.q,
                            in.k,
                            in.v,
                            in.g,
                            in.beta,
                            kept.decay,
                            kept.inverse,
                            kept.scores,
                            kept.update,
                            kept.states});
    ctx->saved_data["layout"] = hold(layout);
    const at::Tensor* inputs[] = {&q, &k, &v, &g, &beta};
    for (std::size_t i = 0; i < 5; ++i)
      ctx->saved_data[std::to_string(i)] = static_cast<std::int64_t>(inputs[i]->scalar_type());
    return out.to(v.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const AutocastGuard full_precision(grads[0].device().type(), at::kFloat);
    const ChunkLayout& layout = held<ChunkLayout>(ctx->saved_data["layout"]);
    const tensor_list saved = ctx->get_saved_variables();
    const Inputs in{saved[0], saved[1], saved[2], saved[3], saved[4]};
    Kept kept{saved[5], saved[6], saved[7], saved[8], saved[9]};
    const RuleGradients d = in.q.is_cuda() ? device_backward(in, kept, grads[0], layout)
                                           : plain_backward(in, kept, grads[0], layout);
    const auto typed = [&](const at::Tensor& x, int input) {
      return x.to(static_cast<at::ScalarType>(ctx->saved_data[std::to_string(input)].toInt()));
    };
    return {
        typed(d.q, 0), typed(d.k, 1), typed(d.v, 2), typed(d.g, 3), typed(d.beta, 4), at::Tensor()};
  }
};

} // namespace

at::Tensor gated_delta_rule_fused(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  const Segments& segments) {
  if (segments.chunks == nullptr) internal_error("the fused delta rule needs a prepared batch");
  if (q.size(1) != k.size(1) || v.size(1) % q.size(1) != 0)
    internal_error("the fused delta rule takes as many heads of q as of k and a multiple of v, not "
                   "{}, {} and {}",
                   q.size(1),
                   k.size(1),
                   v.size(1));
  if (q.is_cuda() && (segments.chunks->chunk != delta_rule::kChunk || q.size(2) != v.size(2) ||
                      !delta_rule::width_fits(v.size(2))))
    internal_error("the kernels of the delta rule take chunks of {} tokens and heads of 32, 64 or "
                   "128, not chunks of {} and heads of {}",
                   delta_rule::kChunk,
                   segments.chunks->chunk,
                   v.size(2));
  return FusedDeltaRule::apply(q, k, v, g, beta, segments.chunks);
}

} // namespace assay
