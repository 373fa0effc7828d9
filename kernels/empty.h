// A kernel that does nothing: what launching alone costs.
#pragma once

#include <cuda_runtime_api.h>

namespace assay {

// Asynchronous on `stream`; the caller checks cudaGetLastError().
void launch_empty(cudaStream_t stream);

} // namespace assay
