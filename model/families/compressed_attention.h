// The attention layer of family `hydra`: compressed convolutional grouped-query attention (arXiv
// 2510.04476). Equations: docs/hydra.md.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

class CompressedAttention {
public:
  CompressedAttention(ParameterFactory& make, const std::string& prefix, const TrainConfig& config);

  // [T, d_model] -> [T, d_model]
  at::Tensor forward(const at::Tensor& x, const Segments& segments, Attention path) const;

private:
  struct Convolutions {
    at::Tensor heads; // [heads, taps*d, d]
    at::Tensor all;   // [1, taps*heads*d, heads*d]
  };
  Convolutions make_convolutions(ParameterFactory& make,
                                 const std::string& prefix,
                                 std::int64_t heads,
                                 const TrainConfig& config) const;
  std::vector<at::Tensor> projected(const at::Tensor& x) const; // q, k and v, each [T, heads, d]
  at::Tensor
  convolved(const at::Tensor& x, const Convolutions& by, const at::Tensor& positions) const;
  at::Tensor shifted(const at::Tensor& v, const at::Tensor& positions) const;

  std::int64_t heads_, groups_, head_dim_;
  Projections projections_;
  QkConv conv_;
  ValueShift shift_;
  Gqa gqa_;
  double scale_;
  at::Tensor qkv_proj_; // [(H + 2*G)*d, d_model]: q, then k, then v
  Convolutions q_conv_, k_conv_;
  at::Tensor key_temperature_; // [1]
  at::Tensor out_proj_;        // [d_model, H*d]
};

} // namespace assay
