#include "model/families/latent_attention.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/attention/attention.h"
#include "model/layers/attention/mla_attention.h"
#include "model/layers/attention/rotary_forms.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/kept_weights.h"
#include "model/layers/rms_norm.h"
#include "model/layout/positions.h"

namespace assay {

namespace {

const char* span_name(MlaInputs inputs) {
  if (inputs == MlaInputs::RotaryTranspose) return "mla_inputs/rotary_transpose";
  return inputs == MlaInputs::RotaryComplex ? "mla_inputs/rotary_complex" : "mla_inputs/ops";
}

} // namespace

LatentAttention::LatentAttention(ParameterFactory& make,
                                 const std::string& prefix,
                                 const TrainConfig& config)
    : heads_(config.heads), head_dim_(config.head_dim), rope_dim_(config.rope_dim),
      kv_rank_(config.kv_rank), row_length_(config.seq_len), inputs_(config.mla_inputs),
      projections_(config.projections), choice_(config.mla_attention),
      scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim + config.rope_dim))) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_;
  q_proj_ =
      make.normal(prefix + "q_proj", {heads_ * (head_dim_ + rope_dim_), d}, matrix_std(d, config));
  kv_down_ = make.normal(prefix + "kv_down", {kv_rank_ + rope_dim_, d}, matrix_std(d, config));
  kv_norm_ = make.ones(prefix + "kv_norm", {kv_rank_});
  kv_up_ = make.normal(prefix + "kv_up", {2 * inner, kv_rank_}, matrix_std(kv_rank_, config));
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
}

LatentAttention::Projected LatentAttention::project(const at::Tensor& x,
                                                    const Segments& segments) const {
  const Rotary& rotary = *segments.rotary;
  const RotaryForm rotate = rotary_form(inputs_);
  const std::vector<at::Tensor> q = apply_linear(x, q_proj_)
                                        .view({x.size(0), heads_, head_dim_ + rope_dim_})
                                        .split_with_sizes({head_dim_, rope_dim_}, 2);
  const std::vector<at::Tensor> down =
      apply_linear(x, kv_down_).split_with_sizes({kv_rank_, rope_dim_}, 1);
  return {q[0],
          rotate(q[1], rotary),
          rms_norm(down[0], kv_norm_),
          rotate(down[1].unsqueeze(1), rotary)};
}

// [T, H, D] each. Split: as two products over slices of the matrix, which copies them.
std::vector<at::Tensor> LatentAttention::keys_and_values(const at::Tensor& latent) const {
  const std::int64_t tokens = latent.size(0);
  if (projections_ == Projections::Joined) {
    count("projections/joined");
    return apply_linear(latent, kv_up_).view({tokens, heads_, 2 * head_dim_}).chunk(2, 2);
  }
  count("projections/split");
  std::vector<at::Tensor> kv = split_linear(latent, kv_up_, [&](const at::Tensor& w) {
    const at::Tensor heads = w.view({heads_, 2, head_dim_, kv_rank_});
    return std::vector{heads.select(1, 0).reshape({heads_ * head_dim_, kv_rank_}),
                       heads.select(1, 1).reshape({heads_ * head_dim_, kv_rank_})};
  });
  for (at::Tensor& part : kv) part = part.view({tokens, heads_, head_dim_});
  return kv;
}

LatentHeads LatentAttention::inputs_by_operators(const at::Tensor& x,
                                                 const Segments& segments) const {
  const Span span(span_name(inputs_));
  const Projected p = project(x, segments);
  const std::vector<at::Tensor> kv = keys_and_values(p.latent);
  return {at::cat({p.q_nope, p.q_pe}, 2),
          at::cat({kv[0], p.k_pe.expand({x.size(0), heads_, rope_dim_})}, 2),
          kv[1]};
}

LatentHeads LatentAttention::fused_inputs(const at::Tensor& x, const Segments& segments) const {
  const at::Tensor q = apply_linear(x, q_proj_);
  const NormedLatent normed = norm_latent(apply_linear(x, kv_down_), kv_norm_);
  count("projections/joined");
  return latent_heads(q, apply_linear(normed.latent, kv_up_), normed.key, *segments.rotary, heads_);
}

at::Tensor
LatentAttention::forward(const at::Tensor& x, const Segments& segments, Attention path) const {
  const Span span("latent_attention");
  const LatentHeads in =
      inputs_ == MlaInputs::Fused ? fused_inputs(x, segments) : inputs_by_operators(x, segments);
  const at::Tensor out =
      mla_attention(in.q, in.k, in.v, segments, path, scale_, choice_, row_length_);
  return apply_linear(out.reshape({x.size(0), heads_ * head_dim_}), out_proj_);
}

at::Tensor LatentAttention::forward_absorbed(const at::Tensor& x, const Segments& segments) const {
  const Projected p = project(x, segments);
  const at::Tensor up = kv_up_.view({heads_, 2 * head_dim_, kv_rank_});
  const at::Tensor up_key = up.narrow(1, 0, head_dim_),
                   up_value = up.narrow(1, head_dim_, head_dim_);
  const at::Tensor q_latent = at::bmm(p.q_nope.transpose(0, 1), up_key); // [H, T, kv_rank]
  const at::Tensor q_pe = p.q_pe.transpose(0, 1);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 1; i < segments.cu_host.size(); ++i) {
    const std::int64_t begin = segments.cu_host[i - 1], length = segments.cu_host[i] - begin;
    const at::Tensor latent = p.latent.narrow(0, begin, length);
    const at::Tensor k_pe = p.k_pe.narrow(0, begin, length).squeeze(1);
    const at::Tensor scores = (at::matmul(q_latent.narrow(1, begin, length), latent.t()) +
                               at::matmul(q_pe.narrow(1, begin, length), k_pe.t())) *
                              scale_;
    const at::Tensor above = at::ones({length, length}, x.options().dtype(at::kBool)).triu(1);
    const at::Tensor weights =
        scores.masked_fill(above, -std::numeric_limits<double>::infinity()).softmax(-1);
    outputs.push_back(
        at::bmm(at::matmul(weights, latent), up_value.transpose(1, 2)).transpose(0, 1));
  }
  return apply_linear(at::cat(outputs).reshape({x.size(0), heads_ * head_dim_}), out_proj_);
}

} // namespace assay
