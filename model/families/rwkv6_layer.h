// Time mixing of RWKV-6 (arXiv 2404.05892, section 4.2): a token and the one before it are mixed by
// weights that depend on them, decays too; recurrence, norm a head, gate, output projection.
// Equations: docs/rwmba.md.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class Rwkv6Layer {
public:
  Rwkv6Layer(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);
  at::Tensor forward(const at::Tensor& x,
                     const Segments& segments) const; // [T, d_model] -> [T, d_model]

private:
  // What r, k, v, g and w read: [5, T, d_model].
  at::Tensor mixed(const at::Tensor& x, const Segments& segments) const;

  std::int64_t heads_, head_dim_, rank_;
  ScanForm form_;
  at::Tensor mix_;              // [6, d_model]: of the mix itself, then r, k, v, g, w
  at::Tensor mix_down_;         // [5 * rank, d_model]
  at::Tensor mix_up_;           // [5, d_model, rank]
  at::Tensor r_, k_, v_, gate_; // [H*D, d_model]
  at::Tensor decay_;            // [H*D]
  at::Tensor decay_down_;       // [rank, d_model]
  at::Tensor decay_up_;         // [H*D, rank]
  at::Tensor bonus_;            // [H, D]
  at::Tensor norm_, norm_bias_; // [H*D]
  at::Tensor out_proj_;         // [d_model, H*D]
};

} // namespace assay
