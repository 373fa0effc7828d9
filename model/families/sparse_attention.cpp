#include "model/families/sparse_attention.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <vector>

#include "core/result.h"
#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/attention/attention.h"
#include "model/layers/autocast.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layout/positions.h"
#include "model/nsa/nsa.h"
#include "model/nsa/nsa_inputs.h"

namespace assay {

SparseAttention::SparseAttention(ParameterFactory& make,
                                 const std::string& prefix,
                                 const TrainConfig& config)
    : heads_(config.heads), groups_(config.kv_groups), head_dim_(config.head_dim),
      dense_(config.nsa_attention == NsaAttention::Dense), ranges_(config.nsa_ranges),
      form_(config.nsa_form), stats_(config.nsa_stats), accumulate_(config.accumulate),
      inputs_(config.nsa_inputs), gqa_(config.gqa),
      scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim))) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_;
  const std::int64_t kv = (dense_ ? 2 : 6) * groups_ * head_dim_;
  qkv_proj_ = make.normal(prefix + "qkv_proj", {inner + kv, d}, matrix_std(d, config));
  if (!dense_) {
    const std::int64_t hidden = config.nsa_gate_dim;
    gate_in_ = make.normal(prefix + "gate_in", {hidden, head_dim_}, matrix_std(head_dim_, config));
    gate_in_bias_ = make.zeros(prefix + "gate_in_bias", {hidden});
    // Zero: every branch starts with the weight 1/3.
    gate_out_ = make.add(prefix + "gate_out", at::zeros({3, hidden}), true);
    gate_out_bias_ = make.zeros(prefix + "gate_out_bias", {3});
  }
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
}

// A softmax over the branches, from the mean of a group's rotated queries. The paper (section 3.2)
// takes a sigmoid a branch from the layer's input; here the branches share a weight of 1.
at::Tensor SparseAttention::gates(const at::Tensor& q) const {
  const at::Tensor mean = q.unflatten(1, {groups_, -1}).mean(2); // [T, G, D]
  const at::Tensor hidden = at::silu(at::linear(mean, gate_in_, gate_in_bias_));
  const at::Tensor logits = at::linear(hidden, gate_out_, gate_out_bias_);
  return logits.to(wide_type(logits)).softmax(-1);
}

// A step's last micro-batch reads: of every step, or of the first of 50. Passes without gradients
// belong to no step.
bool SparseAttention::reads_statistics() const {
  if (stats_ == NsaStats::Off) {
    count("nsa_stats/off");
    return false;
  }
  const bool every_step = stats_ == NsaStats::EveryStep;
  const std::int64_t period = accumulate_ * (every_step ? 1 : 50);
  const bool reads =
      at::GradMode::is_enabled() && ++training_passes_ % period == accumulate_ % period;
  count(every_step ? "nsa_stats/every_step" : "nsa_stats/every50");
  if (reads) count("nsa_stats/read");
  return reads;
}

// kv [T, 6, G, D]
at::Tensor
SparseAttention::sparse(const at::Tensor& q, const at::Tensor& kv, const Segments& segments) const {
  const Rotary& rotary = *segments.rotary;
  at::Tensor keys;
  {
    const Span span("nsa_inputs/ops");
    keys = apply_rope(kv.narrow(1, 0, 3), rotary.cos.unsqueeze(1), rotary.sin.unsqueeze(1));
  }
  const std::vector<at::Tensor> k = keys.unbind(1), v = kv.narrow(1, 3, 3).unbind(1);
  return nsa_attention({.q = q,
                        .k_cmp = k[0],
                        .k_sel = k[1],
                        .k_win = k[2],
                        .v_cmp = v[0],
                        .v_sel = v[1],
                        .v_win = v[2],
                        .gates = gates(q),
                        .scale = scale_,
                        .ranges = ranges_,
                        .form = form_,
                        .read_statistics = reads_statistics()},
                       segments.sparse);
}

// kv [T, 2, G, D]
at::Tensor SparseAttention::dense(const at::Tensor& q,
                                  const at::Tensor& kv,
                                  const Segments& segments,
                                  Attention path) const {
  const Rotary& rotary = *segments.rotary;
  const bool shared = gqa_ == Gqa::Shared;
  count(shared ? "gqa/shared" : "gqa/repeat");
  const auto for_heads = [&](const at::Tensor& x) {
    return shared ? x : x.repeat_interleave(heads_ / groups_, 1);
  };
  const at::Tensor k = apply_rope(kv.select(1, 0), rotary.cos, rotary.sin);
  return causal_attention(q, for_heads(k), for_heads(kv.select(1, 1)), segments, path, scale_);
}

at::Tensor
SparseAttention::forward(const at::Tensor& x, const Segments& segments, Attention path) const {
  const Span span("sparse_attention");
  const std::int64_t tokens = x.size(0), inner = heads_ * head_dim_;
  const Rotary& rotary = *segments.rotary;
  const at::Tensor projected = apply_linear(x, qkv_proj_);
  if (!dense_ && segments.sparse == nullptr)
    internal_error("sparse attention needs a batch prepared for it");
  if (!dense_ && inputs_ == NsaInputForm::Fused) {
    const at::Tensor out = nsa_fused_attention(projected,
                                               rotary,
                                               {gate_in_, gate_in_bias_, gate_out_, gate_out_bias_},
                                               segments.sparse,
                                               {heads_, groups_},
                                               scale_,
                                               ranges_);
    return apply_linear(out.reshape({tokens, inner}), out_proj_);
  }
  const std::vector<at::Tensor> parts =
      projected.split_with_sizes({inner, projected.size(1) - inner}, 1);
  const at::Tensor q =
      apply_rope(parts[0].unflatten(1, {heads_, head_dim_}), rotary.cos, rotary.sin);
  const at::Tensor kv = parts[1].unflatten(1, {-1, groups_, head_dim_});
  const at::Tensor out = dense_ ? dense(q, kv, segments, path) : sparse(q, kv, segments);
  return apply_linear(out.reshape({tokens, inner}), out_proj_);
}

} // namespace assay
