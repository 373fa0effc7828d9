// A segment, head and part of the value width per block, from the last chunk to the first: dV and
// dS+.
#pragma once

#include "kernels/delta_rule/chain.cuh"

namespace assay::delta_rule {

template <int D, int DV> struct ReverseStage { // elements of bf16
  static constexpr int query = 0, key = query + kChunk * (D + kPad),
                       d_out = key + kChunk * (D + kPad), inverse = d_out + kChunk * (DV + kPad),
                       scores = inverse + kChunk * (kChunk + kPad),
                       all = scores + kChunk * (kChunk + kPad);
};
// Two blocks of width 64 share an SM, but for kAlone: a launch of at most a block for each SM.
template <int D, int DV, bool kAlone>
using ReverseMemory = ChainMemory<D, DV, ReverseStage<D, DV>::all, D == 64 && !kAlone ? 2 : 3>;

template <bool kAlone, int D, int DV, Chain kChain>
__device__ __forceinline__ void
reverse_warp(const Problem& p, const SegmentPart<D, DV, kChain>& of, bf16* memory) {
  using M = ReverseMemory<D, DV, kAlone>;
  using Stage = ReverseStage<D, DV>;
  const Lane at;
  StateRows<D> s;
  of.begin(p, s, at);
  if (kChain != Chain::Effect) s.put(memory + M::state, at);
  for (int n = of.span.end; n-- > of.span.begin;) {
    block_barrier();
    const int turn = of.span.end - 1 - n;
    const bf16* stage = memory + turn % M::stages * M::stage;
    const Factors& f = reinterpret_cast<const Factors*>(memory + M::factors)[turn % 2];
    // dV' = 2^{gamma_C - gamma} K dS+ + P^T dO
    float u[8][4] = {};
    s.times_rows(u, stage + Stage::key, at);
    s.scale(f.enter[kChunk - 1]);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 leave = *reinterpret_cast<const float2*>(f.leave + 8 * j + 2 * at.c);
      u[j][0] *= leave.x, u[j][1] *= leave.y, u[j][2] *= leave.x, u[j][3] *= leave.y;
    }
    std::uint32_t d_out[4][4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
      load_a_t(d_out[t], stage + Stage::d_out, M::value_stride, 16 * at.warp, 16 * t, at.lane);
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        std::uint32_t b[4];
        load_b(b, stage + Stage::scores, M::pair_stride, 16 * i, 16 * j, at.lane);
        mma(u[2 * j], d_out[i], b[0], b[1]);
        mma(u[2 * j + 1], d_out[i], b[2], b[3]);
      }
    // dV = beta T^T dV'
    std::uint32_t left[4][4];
#pragma unroll
    for (int t = 0; t < 4; ++t) as_left(left[t], u[2 * t], u[2 * t + 1]);
    float w[8][4] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        std::uint32_t b[4];
        load_b_t(b, stage + Stage::inverse, M::pair_stride, 16 * i, 16 * j, at.lane);
        mma(w[2 * j], left[i], b[0], b[1]);
        mma(w[2 * j + 1], left[i], b[2], b[3]);
      }
      // scale 2^gamma dO and -2^gamma dV
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int token = 8 * j + 2 * at.c;
      const float2 beta = *reinterpret_cast<const float2*>(f.rate + token),
                   e = *reinterpret_cast<const float2*>(f.enter + token);
      w[j][0] *= beta.x, w[j][1] *= beta.y, w[j][2] *= beta.x, w[j][3] *= beta.y;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t& d = d_out[j / 2][j % 2 * 2 + i];
        const float2 o = unpack2(d);
        d = pack2(p.scale * e.x * o.x, p.scale * e.y * o.y);
        left[j / 2][j % 2 * 2 + i] = pack2(-e.x * w[j][2 * i], -e.y * w[j][2 * i + 1]);
      }
    }
    if (kChain != Chain::Effect) {
      second_barrier<kChainThreads<DV>>(); // the results of the chunk after are stored
      put_values(memory + M::values, w, at);
    }
    // dS = 2^{gamma_C} dS+ + Q^T (scale 2^gamma dO) - K^T (2^gamma dV)
    s.add(d_out, stage + Stage::query, at);
    s.add(left, stage + Stage::key, at);
    s.round();
    if (kChain != Chain::Effect) s.put(memory + M::state, at);
  }
  if (kChain == Chain::Effect)
    of.end(p, s, at);
  else
    block_barrier();
}

template <bool kAlone, int D, int DV, Chain kChain>
__device__ __forceinline__ void
reverse_movers(const Gradients& b, const SegmentPart<D, DV, kChain>& of, bf16* memory) {
  using M = ReverseMemory<D, DV, kAlone>;
  using Stage = ReverseStage<D, DV>;
  const Problem& p = b.problem;
  const int mover = thread_index() - 2 * DV, begin = of.span.begin, end = of.span.end;
  const std::int64_t key_stride = static_cast<std::int64_t>(p.heads_k) * D,
                     value_stride = static_cast<std::int64_t>(p.heads) * D;
  const auto load = [&](int n) {
    if (n >= begin) {
      bf16* to = memory + (end - 1 - n) % M::stages * M::stage;
      const int2 chunk = of.span.chunk(n);
      const std::int64_t keys = of.keys(p, chunk), pairs = of.square(p, n) * kChunk * kChunk;
      load_rows<kChunk, D, kMovers>(
          to + Stage::key, M::key_stride, p.k + keys, key_stride, chunk.y, mover);
      load_rows<kChunk, D, kMovers>(
          to + Stage::query, M::key_stride, p.q + keys, key_stride, chunk.y, mover);
      load_rows<kChunk, DV, kMovers>(to + Stage::d_out,
                                     M::value_stride,
                                     b.d_out + of.values(p, chunk),
                                     value_stride,
                                     of.of_units ? 0 : chunk.y,
                                     mover);
      load_triangle<true>(to + Stage::inverse, M::pair_stride, p.inverse + pairs, mover);
      load_triangle<false>(to + Stage::scores, M::pair_stride, p.scores + pairs, mover);
    }
    copies_commit();
  };
  const auto store = [&](int n) {
    const int2 chunk = of.span.chunk(n);
    store_values<DV>(b.dv + of.values(p, chunk), value_stride, memory + M::values, chunk.y, mover);
  };
  Factors* factors = reinterpret_cast<Factors*>(memory + M::factors);
  const auto decay = [&](int n) { return p.decay + of.square(p, n) * kChunk; };
  FactorReader next, later; // read a chunk before they are written
#pragma unroll
  for (int i = 0; i + 1 < M::stages; ++i) load(end - 1 - i);
  next.read(decay(end - 1), mover);
  next.write(factors[0], mover);
  if (end - 1 > begin) next.read(decay(end - 2), mover);
  for (int n = end; n-- > begin;) {
    copies_wait<M::stages - 2>();
    block_barrier();
    if (M::stages == 2) load(n - 1); // needed soon: before the results of the chunk after
    if (n > begin + 1) later.read(decay(n - 2), mover);
    if (kChain != Chain::Effect) {
      store_state<D, DV>(b.d_states + of.state(p, n), memory + M::state, mover);
      if (n + 1 < end) store(n + 1);
      second_barrier<kChainThreads<DV>>();
    }
    if (M::stages > 2) load(n - (M::stages - 1)); // after what the other warps wait for
    next.write(factors[(end - n) % 2], mover);
    next = later;
    if (kChain != Chain::Effect && n < begin + kChunksLeft) let_kernel_after_start();
  }
  if (kChain == Chain::Effect) return;
  block_barrier();
  store(begin);
}

template <int D, int DV, bool kAlone, Chain kChain>
__global__ void __launch_bounds__(kChainThreads<DV>, kAlone ? 1 : 3 - D / 64) reverse(Gradients b) {
  const SegmentPart<D, DV, kChain> of(b.problem, Needed::ButTheFirst);
  if (of.span.begin == of.span.end) return;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  if (thread_index() < 2 * DV)
    reverse_warp<kAlone>(b.problem, of, memory);
  else
    reverse_movers<kAlone>(b, of, memory);
}

} // namespace assay::delta_rule
