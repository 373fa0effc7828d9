// Launcher of the update of all parameters: three launches for up to 448 of them. Asynchronous; the
// caller checks cudaGetLastError(). The same inputs give the same bits on every run. Nothing that
// changes from step to step comes from the host but the gradients' addresses, so a CUDA graph may
// capture it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/update/table.h"

namespace assay::update {

struct Pass {
  const Tensor* tensors;           // on the device [tensor_count]
  const Block* blocks;             // on the device; a parameter's blocks are neighbours, in order
  const std::int32_t* block_begin; // on the host [tensor_count + 1]: each parameter's first block
  const float* const* gradients;   // on the host [tensor_count]; the addresses are of the device
  int tensor_count;
  CopyType copy_type;
  Rule rule;
  const float* lr;    // on the device from here on: learning rate of this update
  float* steps;       // updates made; a skipped one does not count
  const float* scale; // of the loss, by which the gradients are too large; null: 1
  float* found_inf;   // out: 1 where the update was skipped; null without a scale
  float* norm;        // out: of all gradients / scale, before clipping
  Partial* partial;   // [block_begin[tensor_count]]
  Factors* factors;
};

void launch_update(const Pass& p, cudaStream_t stream);

} // namespace assay::update
