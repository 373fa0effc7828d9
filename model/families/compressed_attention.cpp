#include "model/families/compressed_attention.h"

#include <cmath>

#include "core/span.h"
#include "model/config/shapes/hydra_shape.h"
#include "model/families/init.h"
#include "model/layers/attention/attention.h"
#include "model/layers/attention/token_conv.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/rms_norm.h"
#include "model/layout/positions.h"

namespace assay {

CompressedAttention::CompressedAttention(ParameterFactory& make,
                                         const std::string& prefix,
                                         const TrainConfig& config)
    : heads_(config.heads), groups_(config.kv_groups), head_dim_(config.head_dim),
      projections_(config.projections), conv_(config.qk_conv), shift_(config.value_shift),
      gqa_(config.gqa), scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim))) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_, shared = groups_ * head_dim_;
  qkv_proj_ = make.normal(prefix + "qkv_proj", {inner + 2 * shared, d}, matrix_std(d, config));
  q_conv_ = make_convolutions(make, prefix + "q_conv", heads_, config);
  k_conv_ = make_convolutions(make, prefix + "k_conv", groups_, config);
  key_temperature_ = make.add(
      prefix + "key_temperature", at::full({1}, std::sqrt(static_cast<double>(head_dim_))), false);
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
}

CompressedAttention::Convolutions
CompressedAttention::make_convolutions(ParameterFactory& make,
                                       const std::string& prefix,
                                       std::int64_t heads,
                                       const TrainConfig& config) const {
  const std::int64_t all = heads * head_dim_;
  Convolutions made;
  made.heads = make.normal(prefix + "_heads",
                           {heads, kHydraTaps * head_dim_, head_dim_},
                           matrix_std(kHydraTaps * head_dim_, config));
  made.all = make.normal(prefix, {1, kHydraTaps * all, all}, matrix_std(kHydraTaps * all, config));
  return made;
}

std::vector<at::Tensor> CompressedAttention::projected(const at::Tensor& x) const {
  const std::int64_t inner = heads_ * head_dim_, shared = groups_ * head_dim_;
  const bool split = projections_ == Projections::Split;
  count(split ? "projections/split" : "projections/joined");
  std::vector<at::Tensor> parts =
      split ? split_linear(x,
                           qkv_proj_,
                           [&](const at::Tensor& w) {
                             return w.split_with_sizes({inner, shared, shared});
                           })
            : apply_linear(x, qkv_proj_).split_with_sizes({inner, shared, shared}, 1);
  for (at::Tensor& part : parts) part = part.unflatten(1, {-1, head_dim_});
  return parts;
}

at::Tensor CompressedAttention::convolved(const at::Tensor& x,
                                          const Convolutions& by,
                                          const at::Tensor& positions) const {
  const at::Tensor of_heads = token_conv(x, by.heads, positions, conv_);
  return token_conv(of_heads.flatten(1).unsqueeze(1), by.all, positions, conv_).view_as(of_heads);
}

// The second half of all channels comes from the token before.
at::Tensor CompressedAttention::shifted(const at::Tensor& v, const at::Tensor& positions) const {
  if (shift_ == ValueShift::None) return v;
  const Span span("value_shift");
  const std::vector<at::Tensor> halves = v.flatten(1).chunk(2, 1);
  return at::cat({halves[0], tokens_before(halves[1], 1, positions)}, 1).view_as(v);
}

at::Tensor
CompressedAttention::forward(const at::Tensor& x, const Segments& segments, Attention path) const {
  const Span span("compressed_attention");
  const Rotary& rotary = *segments.rotary;
  const std::vector<at::Tensor> parts = projected(x);
  const at::Tensor &q_pre = parts[0], &k_pre = parts[1];
  at::Tensor q, k;
  {
    const Span convolutions("qk_conv");
    q = convolved(q_pre, q_conv_, segments.positions) + 0.5 * k_pre.mean(1, true);
    k = convolved(k_pre, k_conv_, segments.positions) + 0.5 * q_pre.mean(1, true);
  }
  q = apply_rope(l2_norm(q), rotary.cos, rotary.sin);
  k = apply_rope(l2_norm(k) * key_temperature_.to(k.scalar_type()), rotary.cos, rotary.sin);
  const bool shared = gqa_ == Gqa::Shared;
  count(shared ? "gqa/shared" : "gqa/repeat");
  const auto for_heads = [&](const at::Tensor& one) {
    return shared ? one : one.repeat_interleave(heads_ / groups_, 1);
  };
  const at::Tensor out = causal_attention(
      q, for_heads(k), for_heads(shifted(parts[2], segments.positions)), segments, path, scale_);
  return apply_linear(out.reshape({x.size(0), heads_ * head_dim_}), out_proj_);
}

} // namespace assay
