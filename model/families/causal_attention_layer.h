// The attention layer of family `gpt`: one product of queries, keys and values, causal attention,
// and a product back, both with biases. Equations: docs/gpt.md.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class CausalAttentionLayer {
public:
  CausalAttentionLayer(ParameterFactory& make,
                       const std::string& prefix,
                       const TrainConfig& config);

  // [T, d_model] -> [T, d_model]
  at::Tensor forward(const at::Tensor& x, const Segments& segments, Attention path) const;

private:
  at::Tensor attended(const at::Tensor& x, const Segments& segments, Attention path) const;
  at::Tensor joined(const at::Tensor& x) const;             // [T, 3, H, d]
  std::vector<at::Tensor> split(const at::Tensor& x) const; // q, k and v, each [T, H, d]

  std::int64_t heads_, head_dim_, row_length_;
  Projections projections_;
  QkvCopies copies_;
  MlaAttention choice_;
  double scale_;
  at::Tensor qkv_proj_, qkv_bias_; // [3*H*D, d_model], [3*H*D]: q, then k, then v
  at::Tensor out_proj_, out_bias_; // [d_model, H*D], [d_model]
};

} // namespace assay
