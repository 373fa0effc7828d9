// Gated DeltaNet layer (arXiv 2412.06464, figure 1): projections, short convolution + SiLU,
// normalized keys and queries, gated delta rule, gated output norm, output projection. Equations:
// docs/model.md.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"
#include "model/layers/delta_rule/delta_inputs.h"

namespace assay {

class GatedDeltaNet {
public:
  GatedDeltaNet(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);
  at::Tensor forward(const at::Tensor& x,
                     const Segments& segments) const; // [T, d_model] -> [T, d_model]
  // Weight of the linear that alone reads x.
  const at::Tensor& reader() const { return in_proj_; }

private:
  DeltaRuleInputs rule_inputs(const at::Tensor& projected, const Segments& segments) const;
  at::Tensor guard_cast(const at::Tensor& x) const;

  std::int64_t heads_, head_dim_;
  DeltaForm form_;
  DeltaInputs inputs_;
  bool bf16_inputs_;
  Bf16Guard guard_;
  Norms norms_;
  at::Tensor in_proj_;  // [4*H*D + 2*H, d_model]: q, k, v, gate, decay, rate
  at::Tensor conv_;     // [3*H*D, kernel]
  at::Tensor a_log_;    // [H]
  at::Tensor dt_bias_;  // [H]
  at::Tensor norm_;     // [D]
  at::Tensor out_proj_; // [d_model, H*D]
};

} // namespace assay
