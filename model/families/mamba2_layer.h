// Mamba-2 layer (arXiv 2405.21060, section 7, figure 6): one projection, short convolution + SiLU,
// state space duality, gated norm, output projection. Equations: docs/rwmba.md.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class Mamba2Layer {
public:
  Mamba2Layer(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);
  at::Tensor forward(const at::Tensor& x,
                     const Segments& segments) const; // [T, d_model] -> [T, d_model]

private:
  std::int64_t heads_, head_dim_, state_dim_; // head_dim_: P, twice the key's
  ScanForm form_;
  at::Tensor in_proj_;  // [2*H*P + 2*N + H, d_model]: gate, x, b, c, step
  at::Tensor conv_;     // [H*P + 2*N, kernel]
  at::Tensor a_log_;    // [H]
  at::Tensor dt_bias_;  // [H]
  at::Tensor skip_;     // [H]
  at::Tensor norm_;     // [H*P]
  at::Tensor out_proj_; // [d_model, H*P]
};

} // namespace assay
