// Raw bits of bf16 tensors, as kernels take them.
#pragma once

#include <ATen/ATen.h>

#include "kernels/bf16.h"

namespace assay {

inline const bf16* bf16_data(const at::Tensor& x) {
  return static_cast<const bf16*>(x.const_data_ptr());
}
inline bf16* bf16_data(at::Tensor& x) {
  return static_cast<bf16*>(x.data_ptr());
}

} // namespace assay
