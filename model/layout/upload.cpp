#include "model/layout/upload.h"

#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace assay {

namespace {

at::Tensor queue(const at::Tensor& host, at::Device device) {
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

at::Tensor queue_on_own_stream(const at::Tensor& host, at::Device device) {
  static const c10::cuda::CUDAStream own = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStream of_step = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent copied;
  at::Tensor result;
  {
    const c10::cuda::CUDAStreamGuard guard(own);
    result = queue(host, device);
    copied.record(own);
  }
  copied.block(of_step);
  // Else its memory could hold the next batch while a step still reads this one.
  c10::cuda::CUDACachingAllocator::recordStream(result.storage().data_ptr(), of_step);
  return result;
}

} // namespace

at::Tensor upload(const at::Tensor& host, at::Device device, BatchCopy copy) {
  if (host.device() == device) return host;
  if (copy == BatchCopy::Pageable || !device.is_cuda()) return host.to(device);
  return copy == BatchCopy::Pinned ? queue(host, device) : queue_on_own_stream(host, device);
}

} // namespace assay
