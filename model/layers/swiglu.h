// The gates of feed-forward layers and of the delta rule's output, as one function each instead of
// an operator per step.
#pragma once

#include <ATen/ATen.h>

namespace assay {

// silu(gate) * value of in = [gate | value], [T, 2 F] -> [T, F] in in's dtype; fp32 inside (fp64
// for fp64). On a GPU in bf16 one kernel each way, which needs F to be a multiple of 8; elsewhere
// the same arithmetic in tensor operations. Keeps `in` for the backward pass.
//
// `from` and `to`: weights of the linears that alone made `in` and alone read the result;
// undefined: others do. Where both multiply in FP8 and their scales are known before
// (fp8_delayed_slot()), the kernels write FP8 alone, and the result and its gradient are
// fp8_only().
at::Tensor
fused_swiglu(const at::Tensor& in, const at::Tensor& from = {}, const at::Tensor& to = {});

} // namespace assay
