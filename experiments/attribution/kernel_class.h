// What a kernel or operator is for, derived from its name alone.
#pragma once

#include <string_view>

namespace assay {

// gemm, attention, norm, elementwise, reduction, copy, nccl or other; for names of GPU kernels
// (demangled), of our copy and set rows, and of LibTorch operators.
std::string_view kernel_class(std::string_view name);

} // namespace assay
