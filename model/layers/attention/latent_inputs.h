// What latent attention takes, made of the outputs of its products by two functions with a backward
// pass each (`mla_inputs = fused`). Equations: docs/model.md, "Inputs of latent attention". Both
// compute in fp32 (fp64 for fp64). On a GPU from bf16 each is one kernel each way, which needs D
// and c to be multiples of 8, c up to 1024, and R a power of two from 8 to 256; elsewhere they are
// the same formulas in tensor operations.
#pragma once

#include <ATen/ATen.h>

#include "model/layout/positions.h"

namespace assay {

struct NormedLatent {
  at::Tensor latent; // [T, c] in the type of products: what kv_up multiplies
  at::Tensor key;    // [T, R]: the last columns of `down`, not copied and not rotated
};

// down [T, c + R], weight [c]. Keeps `down` for the backward pass.
NormedLatent norm_latent(const at::Tensor& down, const at::Tensor& weight);

struct LatentHeads {
  at::Tensor q, k; // [T, H, D + R]
  at::Tensor v;    // [T, H, D]: columns of `up`, not copied
};

// q [T, H*(D+R)]: per head D columns without position, then R rotary; up [T, H*2*D]: per head D
// key, then D value; key [T, R], shared by the heads. Keeps nothing but the angles. In the kernels'
// case q is rotated in place: nothing may need its old value, and autograd refuses a backward pass
// that saved it. The gradient of q is rotated in place too where nothing else owns it; counter
// "mla_inputs/gradient_copies" counts the others.
LatentHeads latent_heads(const at::Tensor& q,
                         const at::Tensor& up,
                         const at::Tensor& key,
                         const Rotary& rotary,
                         std::int64_t heads);

} // namespace assay
