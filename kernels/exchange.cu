#include "kernels/exchange.h"

#include <algorithm>

namespace assay {

namespace {

constexpr unsigned kThreads = 256;
constexpr std::size_t kMaxBlocks = 4096;

// Each thread exchanges 16-byte words; the last block's first threads take the bytes that remain.
__global__ void exchange_kernel(void* a, void* b, std::size_t bytes) {
  uint4* left = static_cast<uint4*>(a);
  uint4* right = static_cast<uint4*>(b);
  const std::size_t words = bytes / sizeof(uint4);
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += stride) {
    const uint4 kept = left[i];
    left[i] = right[i];
    right[i] = kept;
  }
  const std::size_t rest = words * sizeof(uint4) + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && rest < bytes) {
    unsigned char* x = static_cast<unsigned char*>(a);
    unsigned char* y = static_cast<unsigned char*>(b);
    const unsigned char kept = x[rest];
    x[rest] = y[rest];
    y[rest] = kept;
  }
}

} // namespace

void launch_exchange(void* a, void* b, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return;
  const std::size_t blocks = (bytes / sizeof(uint4) + kThreads - 1) / kThreads;
  const unsigned grid =
      static_cast<unsigned>(std::min(std::max<std::size_t>(blocks, 1), kMaxBlocks));
  exchange_kernel<<<grid, kThreads, 0, stream>>>(a, b, bytes);
}

} // namespace assay
