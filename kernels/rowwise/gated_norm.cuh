// norm(o) * weight * silu(gate) over heads of kHead columns: kHead / 8 neighbouring lanes hold a
// head.
#pragma once

#include "kernels/rowwise/norm_row.cuh"
#include "kernels/rowwise/swiglu.cuh"

namespace assay::rowwise {

template <int kHead> __global__ void __launch_bounds__(kGateThreads) gated_norm(GatedNorm p) {
  constexpr int kLanes = kHead / 8;
  const int row_words = p.heads * kLanes;
  const std::int64_t words = static_cast<std::int64_t>(p.tokens) * row_words;
  const std::int64_t word =
      static_cast<std::int64_t>(block_index()) * kGateThreads + thread_index();
  const bool exists = word < words; // whole heads exist or not, and lanes stay for the sums
  const std::int64_t token = exists ? word / row_words : 0;
  const int column = exists ? static_cast<int>(word % row_words) * 8 : 0;
  float w[8], o[8], gate[8];
  load(w, p.weight + column % kHead);
  load(o, p.o + token * row_words * 8 + column);
  load(gate, p.gate + token * p.gate_stride + column);
  gate_word<kHead>(o, gate, w);
  if (exists) store(p.y + word * 8, o);
  if (p.amax == nullptr) return;
  int largest = 0;
  if (exists) add_largest(largest, o);
  raise_to_rounded<kGateThreads / 32>(p.amax, largest);
}

template <int kHead>
__global__ void __launch_bounds__(kGateThreads) gated_norm_backward(GatedNormBackward b) {
  constexpr int kLanes = kHead / 8, kWarps = kGateThreads / 32;
  __shared__ float sums[kWarps][kHead];
  const GatedNorm& p = b.forward;
  const int row_words = p.heads * kLanes, lane = thread_index() % 32, warp = thread_index() / 32;
  const std::int64_t words = static_cast<std::int64_t>(p.tokens) * row_words;
  const int column_in_head = thread_index() % kLanes * 8; // the stride below is whole heads
  float w[8], dw[8] = {};
  load(w, p.weight + column_in_head);
  for (std::int64_t begin = static_cast<std::int64_t>(block_index()) * kGateThreads; begin < words;
       begin += static_cast<std::int64_t>(block_count()) * kGateThreads) {
    const std::int64_t word = begin + thread_index();
    const bool exists = word < words;
    const std::int64_t token = exists ? word / row_words : 0;
    const int column = exists ? static_cast<int>(word % row_words) * 8 : 0;
    float o[8], gate[8], dy[8], square = 0, along = 0;
    load(o, p.o + token * row_words * 8 + column);
    load(gate, p.gate + token * p.gate_stride + column);
    load(dy, b.dy + token * row_words * 8 + column);
#pragma unroll
    for (int e = 0; e < 8; ++e) square += o[e] * o[e];
    const float r = inverse_root(sum_lanes<kLanes>(square) * (1.F / kHead) + kEps);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const float s = sigmoid(gate[e]), u = o[e] * r, wu = w[e] * u;
      const float d_norm = dy[e] * gate[e] * s;
      gate[e] = dy[e] * wu * s * (1.F + gate[e] * (1.F - s));
      if (exists) dw[e] += d_norm * u;
      along += d_norm * wu;
      o[e] = u, dy[e] = d_norm * w[e];
    }
    along = sum_lanes<kLanes>(along) * (1.F / kHead);
#pragma unroll
    for (int e = 0; e < 8; ++e) o[e] = r * (dy[e] - o[e] * along);
    if (exists) {
      store(b.d_o + word * 8, o);
      store(b.d_gate + token * b.d_gate_stride + column, gate);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
#pragma unroll
    for (int d = kLanes; d < 32; d *= 2) dw[e] += __shfl_xor_sync(0xffffffffU, dw[e], d);
    if (lane < kLanes) sums[warp][lane * 8 + e] = dw[e];
  }
  __syncthreads();
  for (int column = thread_index(); column < kHead; column += kGateThreads) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += sums[i][column];
    b.partial[static_cast<std::int64_t>(block_index()) * kHead + column] = sum;
  }
}

} // namespace assay::rowwise
