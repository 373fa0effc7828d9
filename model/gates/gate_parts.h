// What the files of gates share.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/training/checkpoint.h"

namespace assay {

// Relative RMS that a gate allows: fp32 against fp32, and 16-bit against 16-bit or fp32.
inline constexpr double kFp32Bound = 1e-5, kHalfBound = 1e-2;

// All values in one row [N].
at::Tensor flat(const std::vector<at::Tensor>& tensors);
at::Tensor flat(const NamedTensors& tensors);

} // namespace assay
