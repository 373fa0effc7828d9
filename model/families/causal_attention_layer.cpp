#include "model/families/causal_attention_layer.h"

#include <cmath>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/attention/math_attention.h"
#include "model/layers/attention/mla_attention.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layout/carry.h"

namespace assay {

namespace {

// Slots of a Carry.
constexpr int kKeyRows = 0, kValueRows = 1;

// Contiguous, asked for once or twice. Counts the copies that were really made.
std::vector<at::Tensor> copied(std::vector<at::Tensor> parts, QkvCopies copies) {
  const bool twice = copies == QkvCopies::Twice;
  count(twice ? "qkv_copies/twice" : "qkv_copies/once");
  for (at::Tensor& part : parts)
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
      const at::Tensor given = part;
      part = given.contiguous();
      count("copies/contiguous", part.const_data_ptr() == given.const_data_ptr() ? 0 : 1);
    }
  return parts;
}

} // namespace

CausalAttentionLayer::CausalAttentionLayer(ParameterFactory& make,
                                           const std::string& prefix,
                                           const TrainConfig& config)
    : heads_(config.heads), head_dim_(config.head_dim), row_length_(config.seq_len),
      projections_(config.projections), copies_(config.qkv_copies), choice_(config.mla_attention),
      scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim))) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_;
  qkv_proj_ = make.normal(prefix + "qkv_proj", {3 * inner, d}, matrix_std(d, config));
  qkv_bias_ = make.zeros(prefix + "qkv_bias", {3 * inner});
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
  out_bias_ = make.zeros(prefix + "out_bias", {d});
}

at::Tensor
CausalAttentionLayer::forward(const at::Tensor& x, const Segments& segments, Attention path) const {
  const Span span("causal_attention");
  const at::Tensor out = attended(x, segments, path);
  return apply_linear(out.reshape({x.size(0), heads_ * head_dim_}), out_proj_, out_bias_);
}

at::Tensor CausalAttentionLayer::attended(const at::Tensor& x,
                                          const Segments& segments,
                                          Attention path) const {
  if (segments.carry) {
    const std::vector<at::Tensor> parts = joined(x).unbind(1);
    return carried_attention(parts[0],
                             segments.carry->appended(this, kKeyRows, parts[1]),
                             segments.carry->appended(this, kValueRows, parts[2]),
                             scale_);
  }
  if (projections_ == Projections::Joined && copies_ == QkvCopies::None) {
    count("projections/joined");
    count("qkv_copies/none");
    return joined_attention(joined(x), segments, path, scale_, choice_, row_length_);
  }
  const std::vector<at::Tensor> parts =
      projections_ == Projections::Split ? split(x) : copied(joined(x).unbind(1), copies_);
  return mla_attention(parts[0], parts[1], parts[2], segments, path, scale_, choice_, row_length_);
}

at::Tensor CausalAttentionLayer::joined(const at::Tensor& x) const {
  return apply_linear(x, qkv_proj_, qkv_bias_).view({x.size(0), 3, heads_, head_dim_});
}

std::vector<at::Tensor> CausalAttentionLayer::split(const at::Tensor& x) const {
  count("projections/split");
  std::vector<at::Tensor> parts = split_linear(
      x, qkv_proj_, [](const at::Tensor& w) { return w.chunk(3); }, qkv_bias_);
  for (at::Tensor& part : parts) part = part.view({x.size(0), heads_, head_dim_});
  return parts;
}

} // namespace assay
