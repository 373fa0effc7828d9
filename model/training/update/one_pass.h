// Clips gradients, updates weights by AdamW, moves their average and writes their 16-bit copies in
// one pass over the parameters (update_pass = one_pass): the same function as
// LossScaler::unscale(), clip_gradients(), AdamW::step(), Ema::update() and KeptWeights::refresh(),
// one after the other.
//
// On a GPU three launches (kernels/update) from fp32; elsewhere a plain loop in the weights' type.
// Sums have a fixed order: the same inputs give the same bits on every run. Nothing waits for the
// device, and a CUDA graph may capture it: learning rate, step count, scale and flag are tensors.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "kernels/update/table.h"

namespace assay {

// Contiguous tensors of one shape on one device.
struct PassParameter {
  at::Tensor weight, gradient, first, second; // of one type; a GPU takes fp32
  at::Tensor average;                         // undefined: none
  at::Tensor copy;                            // bf16 or fp16 of the weight; undefined: none
  double decay = 0;                           // of the weight, decoupled
};

struct PassScalars {
  at::Tensor learning_rate; // fp32, 1 element
  at::Tensor steps;         // fp32, 1 element: updates made; a skipped one does not count
  // fp32, 1 element, by which the gradients are too large, and where 1 is written if one of them is
  // inf or NaN: the update then moves the averages alone. Both undefined: nothing is skipped.
  at::Tensor scale, found_inf;
  double beta1, beta2, eps, max_norm, ema_decay; // max_norm 0: no clipping
};

class OnePass {
public:
  // Returns the norm of all gradients / scale before clipping, 0-dim. The first call, and one after
  // a tensor other than a gradient has moved, writes a table and must not be captured.
  at::Tensor run(const std::vector<PassParameter>& parameters, const PassScalars& scalars);

private:
  at::Tensor on_cuda(const std::vector<PassParameter>& parameters, const PassScalars& scalars);
  void place(const std::vector<PassParameter>& parameters);

  std::vector<update::Tensor> rows_;      // of the table, as they were placed
  std::vector<std::int32_t> block_begin_; // of each parameter, and the number of blocks
  at::Tensor table_, blocks_;             // on the device, bytes
  at::Tensor partial_, factors_;          // likewise
};

} // namespace assay
