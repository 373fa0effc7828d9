// Reads a buffer again and again past the first cache: what the L2 delivers, the bound of attention
// whose queries read their own keys (bench_nsa).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

// Reads `bytes` (a multiple of 16, at `data` aligned to 16) `passes` times, every multiprocessor
// its share of each pass; `sink` (one uint32) is written only if a word is not 0xffffffff, and
// keeps the compiler from leaving the loads out. Asynchronous on `stream`; the caller checks
// cudaGetLastError().
void launch_l2_read(
    const void* data, std::int64_t bytes, int passes, std::uint32_t* sink, cudaStream_t stream);

} // namespace assay
