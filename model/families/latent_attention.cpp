#include "model/families/latent_attention.h"

#include <cmath>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/attention/attention.h"
#include "model/layers/attention/math_attention.h"
#include "model/layers/attention/mla_attention.h"
#include "model/layers/attention/rotary_forms.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/rms_norm.h"
#include "model/layout/carry.h"
#include "model/layout/positions.h"

namespace assay {

namespace {

// Slots of a Carry.
constexpr int kLatentKeys = 0, kLatentValues = 1;

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
  const Rotary& rotary = *segments.rotary;
  const RotaryForm rotate = rotary_form(inputs_);
  const std::vector<at::Tensor> q = apply_linear(x, q_proj_)
                                        .view({x.size(0), heads_, head_dim_ + rope_dim_})
                                        .split_with_sizes({head_dim_, rope_dim_}, 2);
  const std::vector<at::Tensor> down =
      apply_linear(x, kv_down_).split_with_sizes({kv_rank_, rope_dim_}, 1);
  const at::Tensor q_pe = rotate(q[1], rotary), latent = rms_norm(down[0], kv_norm_),
                   k_pe = rotate(down[1].unsqueeze(1), rotary);
  const std::vector<at::Tensor> kv = keys_and_values(latent);
  return {at::cat({q[0], q_pe}, 2),
          at::cat({kv[0], k_pe.expand({x.size(0), heads_, rope_dim_})}, 2),
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
      segments.carry
          ? carried_attention(in.q,
                              segments.carry->appended(this, kLatentKeys, in.k),
                              segments.carry->appended(this, kLatentValues, in.v),
                              scale_)
          : mla_attention(in.q, in.k, in.v, segments, path, scale_, choice_, row_length_);
  return apply_linear(out.reshape({x.size(0), heads_ * head_dim_}), out_proj_);
}

} // namespace assay
