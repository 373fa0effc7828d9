// The sum over the rows of a matrix: the gradient of a bias.
#pragma once

#include <ATen/ATen.h>

namespace assay {

// x [T, N] -> [N] in `type`, added up in it. From contiguous bf16 to fp32 on a GPU, with N a
// multiple of 8, two kernels that add in a fixed order; elsewhere LibTorch's sum.
at::Tensor column_sum(const at::Tensor& x, at::ScalarType type);

} // namespace assay
