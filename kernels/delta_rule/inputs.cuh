// Inputs of the delta rule. A block walks a range of tokens in order, four columns a thread, with
// the last three inputs in registers.
#pragma once

#include "kernels/delta_rule/inputs.h"
#include "kernels/vectors.cuh"

namespace assay::delta_rule {

using namespace simt;

// Blocks of two warps: small ones fill the registers of an SM best.
constexpr int kInputColumns = 4 * kInputThreads;
constexpr int kAhead = 4,
              kInputBlocks = 16; // tokens loaded at a time, one group ahead; blocks an SM

// A block's share of the columns. The rows of blocks of a grid are q's, k's, v's, then one for
// decay and rate. Heads are whole in a warp. A thread beyond the last column repeats one of the
// first, with the same bits.
template <int D> struct Columns {
  int width;   // columns of each of q, k and v
  int tensor;  // 0: q, 1: k, 2: v, 3: decay and rate
  int column;  // the thread's first, in its tensor
  int channel; // the same in [q | k | v]
  __device__ __forceinline__ explicit Columns(int heads) : width(heads * D) {
    const int blocks = (width + kInputColumns - 1) / kInputColumns;
    tensor = block_row() / blocks;
    column = (block_row() % blocks * kInputColumns + 4 * thread_index()) % width;
    channel = tensor * width + column;
  }
};

struct Walk {
  int first, last; // tokens
  __device__ __forceinline__ explicit Walk(const RuleInputs& p)
      : first(block_index() * p.walk), last(first + p.walk < p.tokens ? first + p.walk : p.tokens) {
  }
};

// Decay before its softplus (x) and rate before its sigmoid (y).
__device__ __forceinline__ float2 gates_of(const RuleInputs& p, int columns, int token, int head) {
  const bf16* row = p.projected + static_cast<std::int64_t>(token) * p.row + columns + head;
  return make_float2(unpack2(row[0]).x + p.dt_bias[head], unpack2(row[p.heads]).x);
}
__device__ __forceinline__ float softplus(float x) {
  return x > 20.F ? x : log1pf(expf(x));
}

// What a thread has of its four columns while it walks.
struct Window {
  float w[4][kTaps],
      before[kTaps - 1][4]; // before[j]: input j + 1 tokens ago, 0 before the segment
  // x: the thread's columns of token `first`.
  __device__ __forceinline__ Window(const RuleInputs& p, const bf16* x, int channel, int first)
      : before{} {
#pragma unroll
    for (int e = 0; e < 4; ++e) load(w[e], p.conv + (channel + e) * kTaps);
    const int position = p.position[first];
#pragma unroll
    for (int j = 1; j < kTaps; ++j)
      if (position >= j) load(before[j - 1], x - static_cast<std::int64_t>(j) * p.row);
  }
  __device__ __forceinline__ void forget() {
#pragma unroll
    for (int e = 0; e < 4; ++e) before[0][e] = before[1][e] = before[2][e] = 0;
  }
  __device__ __forceinline__ float sum(int e, float here) const {
    return w[e][0] * here + w[e][1] * before[0][e] + w[e][2] * before[1][e] +
           w[e][3] * before[2][e];
  }
  __device__ __forceinline__ void advance(const float (&here)[4]) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      before[2][e] = before[1][e], before[1][e] = before[0][e], before[0][e] = here[e];
  }
};

template <int D, bool kNorm>
__device__ __forceinline__ void walk(const RuleInputs& p, const Columns<D>& at, const Walk& range) {
  const bf16* x = p.projected + static_cast<std::int64_t>(range.first) * p.row + at.channel;
  bf16* out = (at.tensor == 0   ? p.q
               : at.tensor == 1 ? p.k
                                : p.v) +
              static_cast<std::int64_t>(range.first) * at.width + at.column;
  Window window(p, x, at.channel, range.first);
  uint2 next[kAhead];
  int next_position = 0; // of the group's last token; 0 where the group is not whole
  const auto fetch = [&](int t) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i, x += p.row)
      if (t + i < range.last) next[i] = *reinterpret_cast<const uint2*>(x);
    next_position = t + kAhead <= range.last ? p.position[t + kAhead - 1] : 0;
  };
  const auto token = [&](uint2 raw) {
    float here[4], y[4], square = 0;
    unpack(here, raw);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float s = window.sum(e, here[e]);
      y[e] = s * sigmoid(s);
      square += y[e] * y[e];
    }
    window.advance(here);
    if (kNorm) {
      const float r = inverse_root(sum_lanes<D / 4>(square) + kInputEps);
#pragma unroll
      for (int e = 0; e < 4; ++e) y[e] *= r;
    }
    store(out, y);
    out += at.width;
  };
  fetch(range.first);
  for (int t = range.first; t < range.last; t += kAhead) {
    uint2 now[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) now[i] = next[i];
    const bool inside = next_position >= kAhead; // no segment begins here
    fetch(t + kAhead);
    if (inside) { // without a branch per token, so that tokens overlap
#pragma unroll
      for (int i = 0; i < kAhead; ++i) token(now[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kAhead; ++i)
        if (t + i < range.last) {
          if (p.position[t + i] == 0) window.forget();
          token(now[i]);
        }
    }
  }
}

// kInputThreads / heads tokens at a time, so that a thread keeps its head.
__device__ __forceinline__ void gates(const RuleInputs& p, int columns, const Walk& range) {
  const int rows = kInputThreads / p.heads, row = thread_index() / p.heads,
            head = thread_index() % p.heads;
  if (row >= rows) return;
  const float rate = -expf(p.a_log[head]);
  for (int token = range.first + row; token < range.last; token += rows) {
    const float2 ab = gates_of(p, columns, token, head);
    const std::int64_t place = static_cast<std::int64_t>(token) * p.heads + head;
    p.g[place] = rate * softplus(ab.x);
    p.beta[place] = sigmoid(ab.y);
  }
}

template <int D>
__global__ void __launch_bounds__(kInputThreads, kInputBlocks) delta_inputs(RuleInputs p) {
  const Columns<D> at(p.heads);
  const Walk range(p);
  if (at.tensor < 2) return walk<D, true>(p, at, range);
  if (at.tensor == 2) return walk<D, false>(p, at, range);
  gates(p, 4 * at.width, range);
}

} // namespace assay::delta_rule
