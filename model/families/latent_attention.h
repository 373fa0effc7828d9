// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1) with decoupled rotary
// keys. Equations: docs/model.md.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"
#include "model/layers/attention/latent_inputs.h"

namespace assay {

class LatentAttention {
public:
  LatentAttention(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);

  // Keys and values are expanded from the latent: what training runs. [T, d_model] -> [T, d_model].
  at::Tensor forward(const at::Tensor& x, const Segments& segments, Attention path) const;
  // Weight of a linear that reads x; apply_linear() alone does.
  const at::Tensor& reader() const { return q_proj_; }

private:
  std::vector<at::Tensor> keys_and_values(const at::Tensor& latent) const;
  LatentHeads inputs_by_operators(const at::Tensor& x, const Segments& segments) const;
  LatentHeads fused_inputs(const at::Tensor& x, const Segments& segments) const;

  std::int64_t heads_, head_dim_, rope_dim_, kv_rank_, row_length_;
  MlaInputs inputs_;
  Projections projections_;
  MlaAttention choice_;
  double scale_;
  at::Tensor q_proj_;   // [H*(D+R), d_model]: per head D without position, then R rotary
  at::Tensor kv_down_;  // [kv_rank + R, d_model]: latent, then rotary key
  at::Tensor kv_norm_;  // [kv_rank]
  at::Tensor kv_up_;    // [H*2*D, kv_rank]: per head D key, then D value
  at::Tensor out_proj_; // [d_model, H*D]
};

} // namespace assay
