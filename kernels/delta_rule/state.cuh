// A segment, head and part of the value width per block, chunk after chunk: V' and the states.
#pragma once

#include "kernels/delta_rule/chain.cuh"

namespace assay::delta_rule {

template <int D, int DV> struct StateStage { // elements of bf16
  static constexpr int key = 0, value = key + kChunk * (D + kPad),
                       inverse = value + kChunk * (DV + kPad),
                       all = inverse + kChunk * (kChunk + kPad);
};
template <int D, int DV> using StateMemory = ChainMemory<D, DV, StateStage<D, DV>::all, 3>;

template <int D, int DV, Chain kChain>
__device__ __forceinline__ void
state_warp(const Problem& p, const SegmentPart<D, DV, kChain>& of, bf16* memory) {
  using M = StateMemory<D, DV>;
  using Stage = StateStage<D, DV>;
  const Lane at;
  StateRows<D> s;
  of.begin(p, s, at);
  if (kChain != Chain::Effect) s.put(memory + M::state, at);
  for (int n = of.span.begin; n < of.span.end; ++n) {
    block_barrier();
    const int turn = n - of.span.begin;
    const bf16* stage = memory + turn % M::stages * M::stage;
    const Factors& f = reinterpret_cast<const Factors*>(memory + M::factors)[turn % 2];
    float2 enter[8], rate[8], leave[8]; // of this lane's tokens, read while the products run
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int token = 8 * j + 2 * at.c;
      enter[j] = *reinterpret_cast<const float2*>(f.enter + token);
      rate[j] = *reinterpret_cast<const float2*>(f.rate + token);
      leave[j] = *reinterpret_cast<const float2*>(f.leave + token);
    }
    // R = beta (V - 2^gamma K S)
    float x[8][4] = {};
    s.times_rows(x, stage + Stage::key, at);
    s.scale(f.enter[kChunk - 1]);
    std::uint32_t left[4][4];
#pragma unroll
    for (int t = 0; t < 4; ++t) {
      std::uint32_t v[4];
      load_a_t(v, stage + Stage::value, M::value_stride, 16 * at.warp, 16 * t, at.lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int j = 2 * t + i / 2;
        const float2 e = enter[j], beta = rate[j], value = unpack2(v[i]);
        left[t][i] = pack2(beta.x * (value.x - e.x * x[j][i % 2 * 2]),
                           beta.y * (value.y - e.y * x[j][i % 2 * 2 + 1]));
      }
    }
    // V' = T R
    float u[8][4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int i = k; i < 4; ++i) {
        std::uint32_t b[4];
        load_b(b, stage + Stage::inverse, M::pair_stride, 16 * k, 16 * i, at.lane);
        mma(u[2 * i], left[k], b[0], b[1]);
        mma(u[2 * i + 1], left[k], b[2], b[3]);
      }
    if (kChain != Chain::Effect) {
      second_barrier<kChainThreads<DV>>(); // the results of the chunk before are stored
      put_values(memory + M::values, u, at);
    }
    // S <- 2^{gamma_C} S + K^T (2^{gamma_C - gamma} V')
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      left[j / 2][j % 2 * 2] = pack2(leave[j].x * u[j][0], leave[j].y * u[j][1]);
      left[j / 2][j % 2 * 2 + 1] = pack2(leave[j].x * u[j][2], leave[j].y * u[j][3]);
    }
    s.add(left, stage + Stage::key, at);
    s.round();
    if (kChain != Chain::Effect) s.put(memory + M::state, at);
  }
  if (kChain == Chain::Effect)
    of.end(p, s, at);
  else
    block_barrier();
}

template <int D, int DV, Chain kChain>
__device__ __forceinline__ void
state_movers(const Problem& p, const SegmentPart<D, DV, kChain>& of, bf16* memory) {
  using M = StateMemory<D, DV>;
  using Stage = StateStage<D, DV>;
  const int mover = thread_index() - 2 * DV, begin = of.span.begin, end = of.span.end;
  const std::int64_t key_stride = static_cast<std::int64_t>(p.heads_k) * D,
                     value_stride = static_cast<std::int64_t>(p.heads) * D;
  const auto place = [&](int n) { return memory + (n - begin) % M::stages * M::stage; };
  const auto load_inputs = [&](int n) {
    if (n < end) {
      bf16* to = place(n);
      const int2 chunk = of.span.chunk(n);
      load_rows<kChunk, D, kMovers>(
          to + Stage::key, M::key_stride, p.k + of.keys(p, chunk), key_stride, chunk.y, mover);
      load_rows<kChunk, DV, kMovers>(to + Stage::value,
                                     M::value_stride,
                                     p.v + of.values(p, chunk),
                                     value_stride,
                                     of.of_units ? 0 : chunk.y,
                                     mover);
    }
  };
  const auto load_prepared = [&](int n) {
    if (n < end)
      load_triangle<true>(place(n) + Stage::inverse,
                          M::pair_stride,
                          p.inverse + of.square(p, n) * kChunk * kChunk,
                          mover);
    copies_commit();
  };
  const auto store = [&](int n) {
    const int2 chunk = of.span.chunk(n);
    store_values<DV>(
        p.update + of.values(p, chunk), value_stride, memory + M::values, chunk.y, mover);
  };
  Factors* factors = reinterpret_cast<Factors*>(memory + M::factors);
  const auto decay = [&](int n) { return p.decay + of.square(p, n) * kChunk; };
  FactorReader next, later; // read a chunk before they are written
#pragma unroll
  for (int i = 0; i + 1 < M::stages; ++i) load_inputs(begin + i);
  wait_for_kernel_before();
#pragma unroll
  for (int i = 0; i + 1 < M::stages; ++i) load_prepared(begin + i);
  next.read(decay(begin), mover);
  next.write(factors[0], mover);
  if (begin + 1 < end) next.read(decay(begin + 1), mover);
  for (int n = begin; n < end; ++n) {
    copies_wait<M::stages - 2>();
    block_barrier();
    if (n + 2 < end) later.read(decay(n + 2), mover);
    if (kChain != Chain::Effect) {
      store_state<D, DV>(p.states + of.state(p, n), memory + M::state, mover);
      if (n > begin) store(n - 1);
      second_barrier<kChainThreads<DV>>();
    }
    load_inputs(n + M::stages - 1); // after what the other warps wait for
    load_prepared(n + M::stages - 1);
    next.write(factors[(n + 1 - begin) % 2], mover);
    next = later;
    if (kChain != Chain::Effect && n + kChunksLeft >= end) let_kernel_after_start();
  }
  if (kChain == Chain::Effect) return;
  block_barrier();
  store(end - 1);
}

template <int D, int DV, Chain kChain>
__global__ void __launch_bounds__(kChainThreads<DV>, 3 - D / 64) state(Problem p) {
  const SegmentPart<D, DV, kChain> of(p);
  if (of.span.begin == of.span.end) return;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  if (thread_index() < 2 * DV)
    state_warp(p, of, memory);
  else
    state_movers(p, of, memory);
}

} // namespace assay::delta_rule
