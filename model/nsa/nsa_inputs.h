// What stands between the products of a layer of native sparse attention and its three branches, by
// two functions with a backward pass each (`nsa_inputs = fused`). Equations: docs/nsa.md. They
// compute in fp32 (fp64 for fp64). On a GPU from bf16 they are the kernels of kernels/nsa/inputs.h,
// which need head width 64, at most 32 hidden units of the gates and what strided_fits() asks for;
// elsewhere they are the same formulas in tensor operations.
#pragma once

#include <ATen/ATen.h>

#include "model/layout/positions.h"
#include "model/nsa/nsa.h"

namespace assay {

struct NsaSizes {
  std::int64_t heads, groups;
};

// What the branches take. The queries come once for each branch, so that their gradients meet in
// one kernel.
struct NsaProjected {
  bool at_places = false;                // the kernels' case: q_cmp is [Nc, H*d, D] as
                                         // places_attention() takes it, else [T, H, D]
  at::Tensor q_cmp, q_sel, q_win;        // [T, H, D], rotated
  at::Tensor mean;                       // [T, G, D], of a group's rotated queries; fp32 or fp64
  at::Tensor k_blocks, v_blocks;         // [Nc, G, D]: compressed
  at::Tensor k_sel, k_win, v_sel, v_win; // [T, G, D], keys rotated
};

// product [T, (H + 6 G) D]: q, then k of the branches, then v of the branches, in the order
// compressed, selected, window. Keeps nothing but the angles.
NsaProjected nsa_project(const at::Tensor& product,
                         const Rotary& rotary,
                         const NsaLayoutPtr& layout,
                         const NsaSizes& sizes,
                         std::int64_t gate_dim);

struct NsaGateWeights {
  at::Tensor in, in_bias;   // [E, D], [E]
  at::Tensor out, out_bias; // [3, E], [3]
};

// g = softmax(silu(mean in^T + in_bias) out^T + out_bias), then the sum of g_c o_c: [T, H, D].
// branches: compressed (at_places: in places), selected, window.
at::Tensor nsa_gated_mix(const std::array<at::Tensor, 3>& branches,
                         const at::Tensor& mean,
                         const NsaGateWeights& gate,
                         const NsaLayoutPtr& layout,
                         bool at_places);

// All of the layer between its two products: [T, H, D]. Opens the spans of nsa_attention(), and
// "nsa_inputs/fused" in both functions above.
at::Tensor nsa_fused_attention(const at::Tensor& product,
                               const Rotary& rotary,
                               const NsaGateWeights& gate,
                               const NsaLayoutPtr& layout,
                               const NsaSizes& sizes,
                               double scale,
                               NsaRanges ranges);

} // namespace assay
