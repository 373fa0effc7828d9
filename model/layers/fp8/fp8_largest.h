// The largest magnitude of a tensor, handed from the kernel that writes it to its cast to FP8,
// which then need not read the tensor for it.
#pragma once

#include <ATen/core/Tensor.h>

namespace assay {

// For a kernel whose result an FP8 linear may read: zeros [8] on `device`, of which it raises the
// first to its result's largest magnitude. Undefined without an Fp8Guard, and on a CPU.
at::Tensor fp8_slot(const at::Device& device);

// The first number of `slot`, or null where there is none.
float* largest_of(const at::Tensor& slot);

// x's largest magnitude will be in `slot`; an undefined one: nothing is known. Valid on this thread
// for the next few notes, while x is not written and somebody keeps slot's memory.
void note_largest(const at::Tensor& x, const at::Tensor& slot);

// x's slot, once; undefined where nothing is known.
at::Tensor take_largest(const at::Tensor& x);

} // namespace assay
