// ASSAY_CUDA(call): throws a Failure that names the call, its place and CUDA's reason.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "core/result.h"

namespace assay {

inline void check_cuda(cudaError_t status,
                       const char* call,
                       const std::source_location& where = std::source_location::current()) {
  if (status != cudaSuccess)
    internal_error(
        "{}:{}: {} failed: {}", where.file_name(), where.line(), call, cudaGetErrorString(status));
}

} // namespace assay

#define ASSAY_CUDA(call) ::assay::check_cuda((call), #call)
