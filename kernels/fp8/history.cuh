// Delayed scaling (Transformer Engine's DelayedScaling: the largest of the last 1024 steps): after
// a step each tensor's largest value enters its history, whose largest one the next step's scale
// comes from. A value that is not finite does not enter; where nothing but zeros was seen it is 1.
#pragma once

#include "kernels/fp8/tile.cuh"

namespace assay::fp8 {

// One block a tensor.
__global__ void __launch_bounds__(kThreads) roll_history(Fp8History p) {
  __shared__ int of_warps[kWarps];
  Fp8Slot& slot = p.slots[block_index()];
  float* values = p.values + static_cast<std::int64_t>(block_index()) * p.length;
  const int place = static_cast<int>(slot.place), thread = thread_index();
  const float now = slot.now <= 3.402823466e38F ? slot.now : 0.F;
  int largest = 0;
  for (int i = thread; i < p.length; i += kThreads) {
    const float value[1] = {i == place ? now : values[i]};
    if (i == place) values[i] = now;
    add_largest(largest, value);
  }
#pragma unroll
  for (int d = 16; d > 0; d /= 2) {
    const int other = __shfl_xor_sync(0xffffffffU, largest, d);
    largest = other > largest ? other : largest;
  }
  if (thread % 32 == 0) of_warps[thread / 32] = largest;
  __syncthreads(); // also: every thread has read the slot
  if (thread > 0) return;
  for (int w = 0; w < kWarps; ++w) largest = of_warps[w] > largest ? of_warps[w] : largest;
  slot.largest = largest > 0 ? float_of(largest) : 1.F;
  slot.now = 0;
  slot.place = static_cast<float>(place + 1 == p.length ? 0 : place + 1);
}

} // namespace assay::fp8
