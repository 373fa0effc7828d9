#include "model/layout/upload.h"

namespace assay {

at::Tensor upload(const at::Tensor& host, at::Device device, BatchCopy copy) {
  if (host.device() == device) return host;
  if (copy == BatchCopy::Pageable || !device.is_cuda()) return host.to(device);
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

} // namespace assay
