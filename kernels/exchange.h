// Exchanges the contents of two device buffers in place, without scratch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace assay {

// Both buffers have `bytes` bytes, do not overlap, and are aligned to 16. Asynchronous on `stream`;
// the caller checks cudaGetLastError().
void launch_exchange(void* a, void* b, std::size_t bytes, cudaStream_t stream);

} // namespace assay
