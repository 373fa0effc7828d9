// SwiGLU: eight columns (16 bytes) a thread and access.
#pragma once

#include "kernels/largest.cuh"
#include "kernels/rowwise/rows.h"

namespace assay::rowwise {

using namespace simt;

constexpr int kGateThreads = 256;

__global__ void __launch_bounds__(kGateThreads) swiglu(SwiGlu p) {
  const std::int64_t words_per_row = p.hidden / 8, words = p.tokens * words_per_row;
  const std::int64_t word =
      static_cast<std::int64_t>(block_index()) * kGateThreads + thread_index();
  int largest = 0;
  if (word < words) {
    const std::int64_t row = word / words_per_row, column = word % words_per_row * 8;
    const bf16* in = p.in + row * 2 * p.hidden + column;
    float gate[8], value[8];
    load(gate, in);
    load(value, in + p.hidden);
#pragma unroll
    for (int e = 0; e < 8; ++e) gate[e] *= sigmoid(gate[e]) * value[e];
    store(p.y + word * 8, gate);
    add_largest(largest, gate);
  }
  if (p.amax != nullptr) raise_to_rounded<kGateThreads / 32>(p.amax, largest);
}

__global__ void __launch_bounds__(kGateThreads, 8) swiglu_backward(SwiGluBackward p) {
  const std::int64_t words_per_row = p.hidden / 8, words = p.tokens * words_per_row;
  const std::int64_t word =
      static_cast<std::int64_t>(block_index()) * kGateThreads + thread_index();
  int largest = 0;
  if (word < words) {
    const std::int64_t place = word / words_per_row * 2 * p.hidden + word % words_per_row * 8;
    float gate[8], value[8], dy[8];
    load(gate, p.in + place);
    load(value, p.in + place + p.hidden);
    load(dy, p.dy + word * 8);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float s = sigmoid(gate[e]), silu = gate[e] * s;
      gate[e] = dy[e] * value[e] * (s + silu * (1.F - s));
      value[e] = dy[e] * silu;
    }
    store(p.d_in + place, gate);
    store(p.d_in + place + p.hidden, value);
    add_largest(largest, gate);
    add_largest(largest, value);
  }
  if (p.amax != nullptr) raise_to_rounded<kGateThreads / 32>(p.amax, largest);
}

} // namespace assay::rowwise
