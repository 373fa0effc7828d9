// ASSAY_CUDA(call): throws a Failure that names the call, its place and CUDA's reason; bad input
// where the programs have no code for the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "core/result.h"

namespace assay {

inline void check_cuda(cudaError_t status,
                       const char* call,
                       const std::source_location& where = std::source_location::current()) {
  if (status == cudaErrorNoKernelImageForDevice)
    bad_input("these programs were built for other GPUs than this one; run `make build`, which "
              "builds them for every supported GPU");
  if (status != cudaSuccess)
    internal_error(
        "{}:{}: {} failed: {}", where.file_name(), where.line(), call, cudaGetErrorString(status));
}

} // namespace assay

#define ASSAY_CUDA(call) ::assay::check_cuda((call), #call)
