#include "model/families/rwkv6_layer.h"

#include "core/result.h"
#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/layer_norm.h"
#include "model/layers/probe.h"
#include "model/layers/scan/rwkv6.h"
#include "model/layout/carry.h"
#include "model/layout/chunk_layout.h"

namespace assay {

namespace {

constexpr std::int64_t kMixed = 5; // r, k, v, g, w

// Slots of a Carry.
constexpr int kTokenBefore = 0, kRwkvState = 1;

// The token before each one, 0 at a segment's start.
at::Tensor token_before(const at::Tensor& x, const Segments& segments) {
  if (segments.chunks == nullptr) internal_error("time mixing needs a prepared batch");
  if (x.size(0) == 1) return at::zeros_like(x);
  const at::Tensor shifted =
      at::cat({at::zeros_like(x.narrow(0, 0, 1)), x.narrow(0, 0, x.size(0) - 1)});
  return shifted * segments.chunks->taps[0].to(x.scalar_type());
}

// Channels start with decays from slow to fast: log(-w) is a line from -6 to -1.
at::Tensor initial_decay(std::int64_t inner) {
  return at::linspace(-6, -1, inner, at::kFloat);
}

} // namespace

Rwkv6Layer::Rwkv6Layer(ParameterFactory& make, const std::string& prefix, const TrainConfig& config)
    : heads_(config.heads), head_dim_(config.head_dim), rank_(config.mix_rank),
      form_(config.scan_form) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_;
  const double std = matrix_std(d, config);
  mix_ = make.uniform(prefix + "mix", {1 + kMixed, d}, 0, 1);
  mix_down_ = make.normal(prefix + "mix_down", {kMixed * rank_, d}, std);
  mix_up_ = make.normal(prefix + "mix_up", {kMixed, d, rank_}, matrix_std(rank_, config));
  r_ = make.normal(prefix + "r_proj", {inner, d}, std);
  k_ = make.normal(prefix + "k_proj", {inner, d}, std);
  v_ = make.normal(prefix + "v_proj", {inner, d}, std);
  gate_ = make.normal(prefix + "gate_proj", {inner, d}, std);
  decay_ = make.add(prefix + "decay", initial_decay(inner), false);
  decay_down_ = make.normal(prefix + "decay_down", {rank_, d}, std);
  decay_up_ = make.normal(prefix + "decay_up", {inner, rank_}, matrix_std(rank_, config));
  bonus_ = make.uniform(prefix + "bonus", {heads_, head_dim_}, 0, 1);
  norm_ = make.ones(prefix + "norm", {inner});
  norm_bias_ = make.zeros(prefix + "norm_bias", {inner});
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
}

at::Tensor Rwkv6Layer::mixed(const at::Tensor& x, const Segments& segments) const {
  const at::Tensor before =
      segments.carry
          ? segments.carry->with_rows_before(this, kTokenBefore, x, 1).narrow(0, 0, x.size(0))
          : token_before(x, segments);
  const at::Tensor change = before - x;
  const at::Tensor low = apply_linear(x + change * mix_[0], mix_down_).tanh();
  const at::Tensor data =
      at::bmm(low.view({x.size(0), kMixed, rank_}).transpose(0, 1), mix_up_.transpose(1, 2));
  return x + change * (mix_.narrow(0, 1, kMixed).unsqueeze(1) + data);
}

at::Tensor Rwkv6Layer::forward(const at::Tensor& x, const Segments& segments) const {
  const Span span("rwkv6");
  const at::Tensor in = mixed(x, segments);
  const auto heads = [&](const at::Tensor& y) { return y.view({x.size(0), heads_, head_dim_}); };
  const at::Tensor low = apply_linear(in[4], decay_down_).tanh();
  const at::Tensor decay = -(decay_ + apply_linear(low, decay_up_)).exp();
  const at::Tensor r = heads(apply_linear(in[0], r_)), k = heads(apply_linear(in[1], k_)),
                   v = heads(apply_linear(in[2], v_));
  const at::Tensor out =
      segments.carry
          ? rwkv6_piece(r, k, v, heads(decay), bonus_, segments.carry->slot(this, kRwkvState))
          : rwkv6_of(form_)(r, k, v, heads(decay), bonus_, segments);
  if (Probe* const probe = active_probe(); probe != nullptr && segments.carry)
    probe->state("rwkv", segments.carry->slot(this, kRwkvState));
  const at::Tensor normed =
      layer_norm(out, at::Tensor(), at::Tensor()).flatten(1) * norm_ + norm_bias_;
  const at::Tensor gated = normed * at::silu(apply_linear(in[3], gate_));
  return apply_linear(gated, out_proj_);
}

} // namespace assay
