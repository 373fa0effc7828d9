// Keeps a stream busy for a given time: the planted slow-down of the engine's tests.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

// One thread waits until `nanoseconds` of the device's global timer have passed. Asynchronous; the
// caller checks cudaGetLastError().
void launch_spin(std::int64_t nanoseconds, cudaStream_t stream);

} // namespace assay
