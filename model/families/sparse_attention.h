// The attention layer of family `nsa`: native sparse attention (arXiv 2502.11089) with a key and a
// value projection a branch and a learned gate, or dense causal attention of the same heads and
// groups. Equations: docs/model.md.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class SparseAttention {
public:
  SparseAttention(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);

  // [T, d_model] -> [T, d_model]. `path` matters to the dense form only.
  at::Tensor forward(const at::Tensor& x, const Segments& segments, Attention path) const;

private:
  at::Tensor sparse(const at::Tensor& q, const at::Tensor& kv, const Segments& segments) const;
  at::Tensor
  dense(const at::Tensor& q, const at::Tensor& kv, const Segments& segments, Attention path) const;
  bool reads_statistics() const;               // in this forward pass of a training
  at::Tensor gates(const at::Tensor& q) const; // [T, H, D] -> [T, G, 3]

  std::int64_t heads_, groups_, head_dim_;
  bool dense_;
  NsaRanges ranges_;
  NsaForm form_;
  NsaStats stats_;
  std::int64_t accumulate_;
  mutable std::int64_t training_passes_ = 0; // counted with nsa_stats other than off
  NsaInputForm inputs_;
  Gqa gqa_;
  double scale_;
  at::Tensor
      qkv_proj_; // [H*D + 6*G*D, d_model]: q, then k of the branches, then v of the branches,
                 // in the order compressed, selected, window; dense: [H*D + 2*G*D, d_model]
  at::Tensor gate_in_, gate_in_bias_;   // [gate_dim, D], [gate_dim]; sparse only, as the next two
  at::Tensor gate_out_, gate_out_bias_; // [3, gate_dim], [3]
  at::Tensor out_proj_;                 // [d_model, H*D]
};

} // namespace assay
