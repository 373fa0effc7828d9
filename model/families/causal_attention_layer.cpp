#include "model/families/causal_attention_layer.h"

#include <cmath>

#include "core/span.h"
#include "model/families/init.h"
#include "model/layers/attention/mla_attention.h"
#include "model/layers/fp8/fp8_linear.h"

namespace assay {

CausalAttentionLayer::CausalAttentionLayer(ParameterFactory& make,
                                           const std::string& prefix,
                                           const TrainConfig& config)
    : heads_(config.heads), head_dim_(config.head_dim), row_length_(config.seq_len),
      choice_(config.mla_attention), scale_(1.0 / std::sqrt(static_cast<double>(config.head_dim))) {
  const std::int64_t d = config.d_model, inner = heads_ * head_dim_;
  qkv_proj_ = make.normal(prefix + "qkv_proj", {3 * inner, d}, matrix_std(d, config));
  qkv_bias_ = make.zeros(prefix + "qkv_bias", {3 * inner});
  out_proj_ = make.normal(prefix + "out_proj", {d, inner}, residual_std(inner, config));
  out_bias_ = make.zeros(prefix + "out_bias", {d});
}

at::Tensor
CausalAttentionLayer::forward(const at::Tensor& x, const Segments& segments, Attention path) const {
  const Span span("causal_attention");
  const std::int64_t tokens = x.size(0);
  const at::Tensor qkv = apply_linear(x, qkv_proj_, qkv_bias_).view({tokens, 3, heads_, head_dim_});
  const at::Tensor out = joined_attention(qkv, segments, path, scale_, choice_, row_length_);
  return apply_linear(out.reshape({tokens, heads_ * head_dim_}), out_proj_, out_bias_);
}

} // namespace assay
