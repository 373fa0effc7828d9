// How a batch reaches its device.
#pragma once

#include <ATen/ATen.h>

#include "model/config/train_config.h"

namespace assay {

// `host` on `device`; itself where it is there already. Pinned: the copy is queued on the current
// stream, behind the step that runs, and the host goes on. OwnStream: it is copied beside that step
// on a stream of its own, for which the current stream then waits. Pageable: the host waits for the
// current stream.
at::Tensor upload(const at::Tensor& host, at::Device device, BatchCopy copy);

} // namespace assay
