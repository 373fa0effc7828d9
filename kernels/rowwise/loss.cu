#include "kernels/rowwise/loss.cuh"

#include "kernels/rowwise/rowwise.h"

namespace assay::rowwise {
namespace {

constexpr int kStaticBytes = 1024; // at most, of shared memory, beside the row

// What a block of the current device may take.
int shared_bytes_of_a_block() {
  int device = 0, bytes = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return bytes;
}

} // namespace

void launch_loss(const Loss& p, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(p.rows);
  const int bytes = p.stride * static_cast<int>(sizeof(bf16));
  if (p.factor == nullptr) {
    loss<false, false><<<rows, kLossThreads, 0, stream>>>(p);
  } else if (bytes + kStaticBytes > shared_bytes_of_a_block()) {
    loss<true, false><<<rows, kLossThreads, 0, stream>>>(p);
  } else {
    cudaFuncSetAttribute(loss<true, true>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    loss<true, true><<<rows, kLossThreads, static_cast<std::size_t>(bytes), stream>>>(p);
  }
}

} // namespace assay::rowwise
