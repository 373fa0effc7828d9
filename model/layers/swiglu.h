// The gates of feed-forward layers and of the delta rule's output, as one function each instead of
// an operator per step.
#pragma once

#include <ATen/ATen.h>

namespace assay {

// silu(gate) * value of in = [gate | value], [T, 2 F] -> [T, F] in in's dtype; fp32 inside (fp64
// for fp64). On a GPU in bf16 one kernel each way, which needs F to be a multiple of 8; elsewhere
// the same arithmetic in tensor operations. Keeps `in` for the backward pass.
at::Tensor fused_swiglu(const at::Tensor& in);

} // namespace assay
