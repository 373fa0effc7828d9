// The states that enter the pieces of a chain, one after the other, from what each piece does to a
// state: start(next)^T = start^T M^T + B^T, in fp32. A segment, head and 16 of its value columns,
// rows of the transposed state, per block; these are independent of each other.
#pragma once

#include "kernels/delta_rule/chain.cuh"

namespace assay::delta_rule {

constexpr int kStartRows = 16;
template <int D> constexpr int starts_bytes() {
  return (2 * D + kStartRows) * D * 4;
}

// M^T into shared memory.
template <int D> __device__ __forceinline__ void load_effect(float* to, const float* from) {
#pragma unroll 8
  for (int word = thread_index(); word < D * D / 4; word += kThreads)
    copy16(to + 4 * word, from + 4 * word, true);
  copies_commit();
}

// `backwards`: of dS, which enters from the piece after.
template <int D> __global__ void __launch_bounds__(kThreads) starts(Problem p, bool backwards) {
  constexpr int kRows = kStartRows * D / kThreads; // of a thread, in one column
  const int part = block_index() % (D / kStartRows),
            head = block_index() / (D / kStartRows) % p.heads,
            segment = block_index() / (D / kStartRows) / p.heads;
  if (p.first[segment] == p.first[segment + 1]) return;
  float* effect = reinterpret_cast<float*>(shared_memory()); // of two pieces
  float* entering = effect + 2 * D * D;
  const int column = thread_index() % D, row = thread_index() / D * kRows;
  const auto piece_at = [&](int step) { return backwards ? p.pieces - 1 - step : step; };
  const auto place = [&](int step) {
    return (static_cast<std::int64_t>(segment) * p.heads + head) * p.pieces + piece_at(step);
  };
  const auto own = [&](int i) { return (part * kStartRows + row + i) * D + column; };
  float x[kRows] = {};
#pragma unroll
  for (int i = 0; i < kRows; ++i) p.starts[place(0) * D * D + own(i)] = 0;
  const int last = p.pieces - 2; // step
  if (last > 0) load_effect<D>(effect + D * D, p.effects + (2 * place(1) + 1) * D * D);
  for (int step = 0; step <= last; ++step) {
    __syncthreads(); // the effect before and the state that entered its piece are read
    if (step > 0 && step < last)
      load_effect<D>(effect + (step + 1) % 2 * D * D,
                     p.effects + (2 * place(step + 1) + 1) * D * D);
    else
      copies_commit();
    const Span span(p, segment, piece_at(step));
    if (span.begin < span.end) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) entering[(row + i) * D + column] = x[i];
#pragma unroll
      for (int i = 0; i < kRows; ++i) x[i] = p.effects[2 * place(step) * D * D + own(i)];
      copies_wait<1>();
      __syncthreads();
      if (step > 0) {
        const float* units = effect + step % 2 * D * D;
#pragma unroll 4
        for (int j = 0; j < D; ++j)
#pragma unroll
          for (int i = 0; i < kRows; ++i)
            x[i] += entering[(row + i) * D + j] * units[j * D + column];
      }
    }
#pragma unroll
    for (int i = 0; i < kRows; ++i) p.starts[place(step + 1) * D * D + own(i)] = x[i];
  }
}

} // namespace assay::delta_rule
