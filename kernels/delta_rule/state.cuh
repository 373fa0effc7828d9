// A segment, head and part of the value width per block, chunk after chunk: V' and the states.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

template <int D, int DV> struct StateMemory { // elements of bf16, but `decay`
  // 384 blocks of a batch of 16 x 12 sequences fit the board at once with two stages
  static constexpr int stages = D == 64 && DV == 32 ? 2 : 3;
  static constexpr int key_stride = D + kPad, value_stride = DV + kPad, t_stride = kChunk + kPad;
  static constexpr int key = 0, value = key + kChunk * key_stride,
                       inverse = value + kChunk * value_stride, decay = inverse + kChunk * t_stride,
                       stage = decay + kChunk * 4;
  static constexpr int state = stages * stage, rest = state + D * value_stride,
                       scaled = rest + kChunk * value_stride, all = scaled + kChunk * value_stride;
  static constexpr int bytes = all * 2;
};

template <int D, int DV> __global__ void __launch_bounds__(kThreads) state(Problem p) {
  using M = StateMemory<D, DV>;
  constexpr int kTiles = DV / 8, kRows = kStateTiles<D>; // 16-row tiles of the state a warp
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  const Lane at;
  const SegmentPart<D, DV> of(p, at.warp);
  const int part = of.part, head = of.head, key_head = of.key_head;
  const int begin = of.span.begin, end = of.span.end;

  const auto load = [&](int n) {
    if (n < end) {
      bf16* to = memory + (n - begin) % M::stages * M::stage;
      const int2 chunk = of.span.chunk(n);
      load_rows<kChunk, D>(to + M::key,
                           M::key_stride,
                           p.k + (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D,
                           static_cast<std::int64_t>(p.heads_k) * D,
                           chunk.y);
      load_rows<kChunk, DV>(to + M::value,
                            M::value_stride,
                            p.v + (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D +
                                part * DV,
                            static_cast<std::int64_t>(p.heads) * D,
                            chunk.y);
      load_inverse<M>(to, p, n, head);
    }
    copies_commit();
  };
  bf16 *ss = memory + M::state, *sr = memory + M::rest, *sw = memory + M::scaled;
  float s[kRows][kTiles][4] = {};
  clear_state<D, M>(ss);
#pragma unroll
  for (int i = 0; i + 1 < M::stages; ++i) load(begin + i);
  const int row = 16 * at.warp + at.r;
  for (int n = begin; n < end; ++n) {
    copies_wait<M::stages - 2>();
    __syncthreads();
    load(n + M::stages - 1);
    const bf16* stage = memory + (n - begin) % M::stages * M::stage;
    const float2* decay = reinterpret_cast<const float2*>(stage + M::decay);
    const int2 chunk = of.span.chunk(n);
    // S, for the output and the backward pass.
    store_state<D, DV, M>(p.states, ss, p, n, of);
    // R = beta (V - 2^gamma K S)
    float ks[kTiles][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t a[4];
      load_a(a, stage + M::key, M::key_stride, 16 * at.warp, k, at.lane);
#pragma unroll
      for (int j = 0; j < kTiles; j += 2) {
        std::uint32_t b[4];
        load_b(b, ss, M::value_stride, k, 8 * j, at.lane);
        mma(ks[j], a, b[0], b[1]);
        mma(ks[j + 1], a, b[2], b[3]);
      }
    }
    const float2 upper = decay[row], lower = decay[row + 8];
    const float whole = decay[kChunk - 1].x;
    const float e0 = exp2_fast(upper.x), e1 = exp2_fast(lower.x);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int place = row * M::value_stride + 8 * j + 2 * at.c,
                below = place + 8 * M::value_stride;
      const float2 v0 = unpack2(*reinterpret_cast<const std::uint32_t*>(stage + M::value + place));
      const float2 v1 = unpack2(*reinterpret_cast<const std::uint32_t*>(stage + M::value + below));
      *reinterpret_cast<std::uint32_t*>(sr + place) =
          pack2(upper.y * (v0.x - e0 * ks[j][0]), upper.y * (v0.y - e0 * ks[j][1]));
      *reinterpret_cast<std::uint32_t*>(sr + below) =
          pack2(lower.y * (v1.x - e1 * ks[j][2]), lower.y * (v1.y - e1 * ks[j][3]));
    }
    __syncthreads();
    // V' = T R
    float u[kTiles][4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k <= at.warp) {
        std::uint32_t a[4];
        load_a_t(a, stage + M::inverse, M::t_stride, 16 * at.warp, 16 * k, at.lane);
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t b[4];
          load_b(b, sr, M::value_stride, 16 * k, 8 * j, at.lane);
          mma(u[j], a, b[0], b[1]);
          mma(u[j + 1], a, b[2], b[3]);
        }
      }
    const float f0 = exp2_fast(whole - upper.x), f1 = exp2_fast(whole - lower.x);
    bf16* update = p.update + (static_cast<std::int64_t>(chunk.x + row) * p.heads + head) * D +
                   part * DV + 2 * at.c;
    const std::int64_t eight = static_cast<std::int64_t>(8) * p.heads * D;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (row < chunk.y)
        *reinterpret_cast<std::uint32_t*>(update + 8 * j) = pack2(u[j][0], u[j][1]);
      if (row + 8 < chunk.y)
        *reinterpret_cast<std::uint32_t*>(update + eight + 8 * j) = pack2(u[j][2], u[j][3]);
      const int place = row * M::value_stride + 8 * j + 2 * at.c;
      *reinterpret_cast<std::uint32_t*>(sw + place) = pack2(f0 * u[j][0], f0 * u[j][1]);
      *reinterpret_cast<std::uint32_t*>(sw + place + 8 * M::value_stride) =
          pack2(f1 * u[j][2], f1 * u[j][3]);
    }
    __syncthreads();
    // S <- 2^{gamma_C} S + K^T (2^{gamma_C - gamma} V')
    const float keep = exp2_fast(whole);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[i][j][e] *= keep;
    if (of.owns_state) {
      add_to_state<D, DV, M>(s, stage + M::key, sw, at);
      round_state<D, DV, M>(ss, s, at);
    }
  }
  copies_wait<0>();
}

} // namespace assay::delta_rule
