// RankSync: what several ranks do with the gradients of a backward pass. After a pass that
// averages, g_i = (1/N) sum_r g_i^r.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>

namespace assay {

class RankSync {
public:
  virtual ~RankSync() = default;

  // Whether micro-step `index` of `count` averages. A pass that does not only accumulates on its
  // rank, and none of the functions below is called for it.
  virtual bool averages(std::size_t index, std::size_t count) const = 0;

  virtual void before_forward() = 0;
  virtual void before_backward(const at::Tensor& loss) = 0; // the tensor whose backward() follows
  // The gradients are averaged (on CUDA: in the current stream's order).
  virtual void after_backward() = 0;
};

} // namespace assay
