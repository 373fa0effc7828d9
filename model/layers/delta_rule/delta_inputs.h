// What the gated delta rule takes, made from the output of a layer's first product. Equations:
// docs/model.md, "G: gated DeltaNet".
#pragma once

#include <ATen/ATen.h>

#include "model/layout/batch.h"

namespace assay {

struct DeltaInputWeights {
  at::Tensor conv;    // [3*H*D, kernel]
  at::Tensor a_log;   // [H]
  at::Tensor dt_bias; // [H]
};

struct DeltaRuleInputs {
  at::Tensor q, k, v; // [T, H, D] in the type of `projected`; q and k of length 1
  at::Tensor g, beta; // [T, H], fp32 (fp64 for fp64): log decay <= 0, rate
  at::Tensor gate;    // [T, H, D]: the columns of `projected`, not copied
};

// projected [T, 4*H*D + 2*H]: q, k, v, gate, decay, rate. Both compute in fp32 (fp64 for fp64) and
// need segments.chunks.

// An operator per step: short convolution and SiLU, L2 norm, decay, rate.
DeltaRuleInputs delta_inputs_ops(const at::Tensor& projected,
                                 const DeltaInputWeights& weights,
                                 const Segments& segments);

// The same from convolved [T, 3*H*D]: q, k, v behind their convolution.
DeltaRuleInputs delta_inputs_of(const at::Tensor& convolved,
                                const at::Tensor& projected,
                                const DeltaInputWeights& weights);

// One function with one backward pass, which keeps `projected` alone and computes the rest again.
// On a GPU from bf16 one kernel each way, with four taps, D 32, 64 or 128 and up to 64 heads;
// tensor operations elsewhere.
DeltaRuleInputs delta_inputs_fused(const at::Tensor& projected,
                                   const DeltaInputWeights& weights,
                                   const Segments& segments);

} // namespace assay
