// What a kernel writes in FP8 alone, for the linear that reads it (fp8_delayed_slot()).
#pragma once

#include <ATen/ATen.h>

#include <optional>

#include "kernels/fp8/problem.h"
#include "model/layers/fp8/fp8_linear.h"

namespace assay {

struct Fp8Result {
  Fp8Matrix matrix; // uninitialized, both orders
  Fp8Written to;    // its addresses
};

// Of [rows, columns] on the slot's device; columns divide by 16. `slot`: of fp8_delayed_slot().
Fp8Result
fp8_result(std::int64_t rows, std::int64_t columns, at::ScalarType format, const at::Tensor& slot);

// fp8_delayed_slot() as an argument of a torch::autograd::Function, which takes no undefined
// tensors; nothing where `wanted` is false.
std::optional<at::Tensor> delayed_slot(bool wanted, const at::Tensor& weight, Fp8Of of);

} // namespace assay
