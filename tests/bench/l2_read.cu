#include "tests/bench/l2_read.h"

namespace assay {

namespace {

constexpr int kThreads = 512, kBlocks = 264; // two blocks a multiprocessor of an H100 or H200
constexpr int kInFlight = 8;                 // loads of 16 bytes that a thread has under way

__global__ void __launch_bounds__(kThreads)
    l2_read_kernel(const uint4* data, std::int64_t count, int passes, std::uint32_t* sink) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  std::uint32_t all = 0xffffffffu;
  for (int pass = 0; pass < passes; ++pass)
    for (std::int64_t i = first; i < count; i += kInFlight * stride) {
      uint4 words[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        words[k] =
            i + k * stride < count ? __ldcg(data + i + k * stride) : make_uint4(~0u, ~0u, ~0u, ~0u);
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) all &= words[k].x & words[k].y & words[k].z & words[k].w;
    }
  if (all != 0xffffffffu) *sink = all;
}

} // namespace

void launch_l2_read(
    const void* data, std::int64_t bytes, int passes, std::uint32_t* sink, cudaStream_t stream) {
  l2_read_kernel<<<kBlocks, kThreads, 0, stream>>>(
      static_cast<const uint4*>(data), bytes / 16, passes, sink);
}

} // namespace assay
