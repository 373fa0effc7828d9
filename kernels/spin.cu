#include "kernels/spin.h"

namespace assay {

namespace {

__device__ std::int64_t global_time_ns() {
  std::int64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(std::int64_t nanoseconds) {
  const std::int64_t end = global_time_ns() + nanoseconds;
  while (global_time_ns() < end) {
  }
}

} // namespace

void launch_spin(std::int64_t nanoseconds, cudaStream_t stream) {
  if (nanoseconds > 0) spin_kernel<<<1, 1, 0, stream>>>(nanoseconds);
}

} // namespace assay
