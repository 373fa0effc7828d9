// Rotary positions in the forms that the optimization `mla_inputs` compares. All are the same
// function: apply_rope() of model/layers/attention/attention.h.
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"
#include "model/layout/positions.h"

namespace assay {

// x [T, H, D] -> [T, H, D] in x's type, pairs rotated by the angles of `rotary`. Computes in fp32
// (fp64 for fp64).
using RotaryForm = at::Tensor (*)(const at::Tensor& x, const Rotary& rotary);

// Heads before tokens and back; the operand, its even and odd columns, the angles of every head and
// the result are made contiguous, as a published DeltaNet-MLA trainer does.
at::Tensor rotate_transposed(const at::Tensor& x, const Rotary& rotary);

// Pairs as complex numbers, times cos + i sin.
at::Tensor rotate_complex(const at::Tensor& x, const Rotary& rotary);

// What `mla_inputs` rotates with; Fused has no form of its own here and takes apply_rope().
RotaryForm rotary_form(MlaInputs inputs);

} // namespace assay
