// Backward of inputs.cuh: recomputes the convolution and keeps the gradients of the last three
// inputs in registers. With y = u r, u = silu(s), r = 1 / sqrt(sum u^2 + eps):
//   du = r (dy - y <y, dy>)   ds = du silu'(s)   dx_{t-j} += conv_j ds_t   dconv_j += ds_t x_{t-j}
//   d(decay) = -exp(a_log) dg sigmoid(decay + dt_bias)   d(a_log) = sum of dg g   d(rate) = dbeta
//   beta (1 - beta)
#pragma once

#include "kernels/delta_rule/inputs.cuh"

namespace assay::delta_rule {

constexpr int kAheadBack = 2, kBackBlocks = 10; // tokens loaded at a time; blocks an SM

__device__ __forceinline__ void
gates_backward(const RuleInputGradients& b, int columns, const Walk& range) {
  __shared__ float sums[2][kInputThreads]; // of a_log and of dt_bias
  const RuleInputs& p = b.forward;
  const int rows = kInputThreads / p.heads, row = thread_index() / p.heads,
            head = thread_index() % p.heads;
  const float rate = -expf(p.a_log[head]);
  float d_log = 0, d_bias = 0;
  for (int token = range.first + row; row < rows && token < range.last; token += rows) {
    const std::int64_t place = static_cast<std::int64_t>(token) * p.heads + head;
    const float2 ab = gates_of(p, columns, token, head);
    const float beta = sigmoid(ab.y), dg = b.dg[place], da = dg * rate * sigmoid(ab.x);
    d_bias += da;
    d_log += dg * rate * softplus(ab.x);
    bf16* to = b.d_projected + static_cast<std::int64_t>(token) * p.row + columns + head;
    to[0] = static_cast<bf16>(pack2(da, 0.F));
    to[p.heads] = static_cast<bf16>(pack2(b.d_beta[place] * beta * (1.F - beta), 0.F));
  }
  sums[0][thread_index()] = d_log, sums[1][thread_index()] = d_bias;
  __syncthreads();
  if (thread_index() >= p.heads) return;
#pragma unroll
  for (int of = 0; of < 2; ++of) {
    float sum = 0;
    for (int i = 0; i < rows; ++i) sum += sums[of][i * p.heads + head];
    b.partial_decay[(block_index() * 2 + of) * p.heads + head] = sum;
  }
}

// A token's step of a walk: from its input and the gradient of its result to what `ds` adds.
template <int D, bool kNorm> struct BackwardWalk {
  Window window;
  float dw[4][kTaps] = {}, pending[kTaps - 1][4] = {}; // pending[j]: dx of j + 1 tokens ago, so far

  __device__ __forceinline__
  BackwardWalk(const RuleInputs& p, const bf16* x, int channel, int first)
      : window(p, x, channel, first) {}

  // `reach`: how many tokens back the segment goes; `counts`: dw is this block's; `stores`: so is
  // the token three before, whose dx is whole now.
  __device__ __forceinline__ void
  token(uint2 raw_x, uint2 raw_dy, int reach, bool counts, bool stores, bf16* dx) {
    float here[4], d[4], s[4], u[4], square = 0, along = 0;
    unpack(here, raw_x);
    unpack(d, raw_dy);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float sum = window.sum(e, here[e]);
      s[e] = sigmoid(sum);
      u[e] = sum * s[e];
      if (kNorm) square += u[e] * u[e], along += u[e] * d[e];
    }
    if (kNorm) {
      const float r = inverse_root(sum_lanes<D / 4>(square) + kInputEps);
      along = sum_lanes<D / 4>(along) * r * r;
#pragma unroll
      for (int e = 0; e < 4; ++e) d[e] = r * (d[e] - u[e] * along);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      d[e] *= s[e] + u[e] * (1.F - s[e]);
      if (counts) {
        dw[e][0] += d[e] * here[e];
#pragma unroll
        for (int j = 1; j < kTaps; ++j) dw[e][j] += d[e] * window.before[j - 1][e];
      }
#pragma unroll
      for (int j = 1; j < kTaps; ++j)
        if (reach >= j) pending[j - 1][e] += window.w[e][j] * d[e];
    }
    if (stores) store(dx, pending[2]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      pending[2][e] = pending[1][e], pending[1][e] = pending[0][e];
      pending[0][e] = window.w[e][0] * d[e];
    }
    window.advance(here);
  }
};

// Walks three tokens beyond its range, for their share of dx.
template <int D, bool kNorm>
__device__ __forceinline__ void
walk_back(const RuleInputGradients& b, const Columns<D>& at, const Walk& range) {
  const RuleInputs& p = b.forward;
  const int first = range.first, last = range.last,
            stop = last + kTaps - 1 < p.tokens ? last + kTaps - 1 : p.tokens;
  const std::int64_t place = static_cast<std::int64_t>(first) * p.row + at.channel;
  const bf16* x = p.projected + place;
  const bf16* dy = (at.tensor == 0   ? b.dq
                    : at.tensor == 1 ? b.dk
                                     : b.dv) +
                   static_cast<std::int64_t>(first) * at.width + at.column;
  bf16* dx = b.d_projected + place - 3 * static_cast<std::int64_t>(p.row); // of three tokens ago
  BackwardWalk<D, kNorm> of(p, x, at.channel, first);
  uint2 next_x[kAheadBack], next_dy[kAheadBack];
  bool next_inside = false; // a whole group, with no border in reach
  const auto fetch = [&](int t) {
#pragma unroll
    for (int i = 0; i < kAheadBack; ++i, x += p.row, dy += at.width)
      if (t + i < stop) {
        next_x[i] = *reinterpret_cast<const uint2*>(x);
        next_dy[i] = *reinterpret_cast<const uint2*>(dy);
      }
    next_inside = t - 3 >= first && t + kAheadBack <= last &&
                  p.position[t + kAheadBack - 1] >= kAheadBack + kTaps - 2;
  };
  fetch(first);
  int t = first;
  for (bool open = first < stop; open;) {
    uint2 now_x[kAheadBack], now_dy[kAheadBack];
#pragma unroll
    for (int i = 0; i < kAheadBack; ++i) now_x[i] = next_x[i], now_dy[i] = next_dy[i];
    const bool inside = next_inside;
    fetch(t + kAheadBack);
    if (inside) { // without a branch per token, so that tokens overlap
#pragma unroll
      for (int i = 0; i < kAheadBack; ++i, dx += p.row)
        of.token(now_x[i], now_dy[i], kTaps, true, true, dx);
      t += kAheadBack;
      open = t < stop;
    } else {
#pragma unroll
      for (int i = 0; i < kAheadBack; ++i) {
        const int position = t < stop ? p.position[t] : 0;
        if (position == 0) {
          if (t >= last) { // the end, or the next segment, which takes nothing from this range
            open = false;
            break;
          }
          of.window.forget();
        }
        of.token(now_x[i], now_dy[i], position, t < last, t - 3 >= first, dx); // t - 3 < last
        ++t, dx += p.row;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kTaps - 1; ++j) // what the end of the segment left open
    if (t - 1 - j >= first && t - 1 - j < last) store(dx + (2 - j) * p.row, of.pending[j]);
  float* to = b.partial_conv +
              (static_cast<std::int64_t>(block_index()) * 3 * at.width + at.channel) * kTaps;
#pragma unroll
  for (int e = 0; e < 4; ++e) store(to + e * kTaps, of.dw[e]);
}

template <int D>
__global__ void __launch_bounds__(kInputThreads, kBackBlocks)
    delta_inputs_backward(RuleInputGradients b) {
  const Columns<D> at(b.forward.heads);
  const Walk range(b.forward);
  if (at.tensor < 2) return walk_back<D, true>(b, at, range);
  if (at.tensor == 2) return walk_back<D, false>(b, at, range);
  gates_backward(b, 4 * at.width, range);
}

} // namespace assay::delta_rule
