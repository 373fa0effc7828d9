// A segment, head and part of the value width per block, from the last chunk to the first: dV and
// dS+.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

template <int D, int DV> struct ReverseMemory {
  static constexpr int stages = 2;
  static constexpr int key_stride = D + kPad, value_stride = DV + kPad, t_stride = kChunk + kPad;
  static constexpr int query = 0, key = query + kChunk * key_stride,
                       d_out = key + kChunk * key_stride, inverse = d_out + kChunk * value_stride,
                       decay = inverse + kChunk * t_stride, stage = decay + kChunk * 4;
  static constexpr int state = stages * stage, update = state + D * value_stride,
                       from_out = update + kChunk * value_stride,
                       from_value = from_out + kChunk * value_stride,
                       all = from_value + kChunk * value_stride;
  static constexpr int bytes = all * 2;
};

// A 16 x 16 j tile row of scores as the left operand of the next product: values[2 j], values[2 j +
// 1].
__device__ __forceinline__ void
as_left(std::uint32_t (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = pack2(left[0], left[1]), a[1] = pack2(left[2], left[3]);
  a[2] = pack2(right[0], right[1]), a[3] = pack2(right[2], right[3]);
}

template <int D, int DV> __global__ void __launch_bounds__(kThreads) reverse(Gradients b) {
  using M = ReverseMemory<D, DV>;
  constexpr int kTiles = DV / 8, kRows = kStateTiles<D>;
  const Problem& p = b.problem;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  const Lane at;
  const SegmentPart<D, DV> of(p, at.warp);
  const int part = of.part, head = of.head, key_head = of.key_head;
  const int begin = of.span.begin, end = of.span.end;

  const auto load = [&](int n) {
    if (n >= begin) {
      bf16* to = memory + (n - begin) % M::stages * M::stage;
      const int2 chunk = of.span.chunk(n);
      const std::int64_t keys = (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D;
      load_rows<kChunk, D>(to + M::query,
                           M::key_stride,
                           p.q + keys,
                           static_cast<std::int64_t>(p.heads_k) * D,
                           chunk.y);
      load_rows<kChunk, D>(to + M::key,
                           M::key_stride,
                           p.k + keys,
                           static_cast<std::int64_t>(p.heads_k) * D,
                           chunk.y);
      load_rows<kChunk, DV>(to + M::d_out,
                            M::value_stride,
                            b.d_out + (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D +
                                part * DV,
                            static_cast<std::int64_t>(p.heads) * D,
                            chunk.y);
      load_inverse<M>(to, p, n, head);
    }
    copies_commit();
  };
  bf16 *ss = memory + M::state, *su = memory + M::update, *so = memory + M::from_out,
       *sv = memory + M::from_value;
  float s[kRows][kTiles][4] = {};
  clear_state<D, M>(ss);
  load(end - 1);
  const int row = 16 * at.warp + at.r;
  for (int n = end; n-- > begin;) {
    copies_wait<0>();
    __syncthreads();
    load(n - 1);
    const bf16* stage = memory + (n - begin) % M::stages * M::stage;
    const float2* decay = reinterpret_cast<const float2*>(stage + M::decay);
    const int2 chunk = of.span.chunk(n);
    store_state<D, DV, M>(b.d_states, ss, p, n, of);
    const float2 upper = decay[row], lower = decay[row + 8];
    const float whole = decay[kChunk - 1].x;
    // P^T, rows j of this warp, columns i >= j, block by block; P^T dO
    float u[kTiles][4] = {};
#pragma unroll
    for (int block = 0; block < 4; ++block)
      if (block >= at.warp) {
        float scores[2][4] = {};
#pragma unroll
        for (int k = 0; k < D; k += 16) {
          std::uint32_t a[4], right[4];
          load_a(a, stage + M::key, M::key_stride, 16 * at.warp, k, at.lane);
          load_b_t(right, stage + M::query, M::key_stride, k, 16 * block, at.lane);
          mma(scores[0], a, right[0], right[1]);
          mma(scores[1], a, right[2], right[3]);
        }
#pragma unroll
        for (int nt = 0; nt < 2; ++nt)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = 16 * block + 8 * nt + 2 * at.c + (e & 1), j = row + 8 * (e / 2);
            const float gj = e / 2 ? lower.x : upper.x;
            scores[nt][e] =
                column >= j ? p.scale * scores[nt][e] * exp2_fast(decay[column].x - gj) : 0.f;
          }
        std::uint32_t weights[4];
        as_left(weights, scores[0], scores[1]);
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t right[4];
          load_b(right, stage + M::d_out, M::value_stride, 16 * block, 8 * j, at.lane);
          mma(u[j], weights, right[0], right[1]);
          mma(u[j + 1], weights, right[2], right[3]);
        }
      }
    // + 2^{gamma_C - gamma} K dS+
    const float f0 = exp2_fast(whole - upper.x), f1 = exp2_fast(whole - lower.x);
    float ks[kTiles][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t a[4];
      load_a(a, stage + M::key, M::key_stride, 16 * at.warp, k, at.lane);
#pragma unroll
      for (int j = 0; j < kTiles; j += 2) {
        std::uint32_t right[4];
        load_b(right, ss, M::value_stride, k, 8 * j, at.lane);
        mma(ks[j], a, right[0], right[1]);
        mma(ks[j + 1], a, right[2], right[3]);
      }
    }
    const float e0 = exp2_fast(upper.x), e1 = exp2_fast(lower.x);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int place = row * M::value_stride + 8 * j + 2 * at.c,
                below = place + 8 * M::value_stride;
      *reinterpret_cast<std::uint32_t*>(su + place) =
          pack2(u[j][0] + f0 * ks[j][0], u[j][1] + f0 * ks[j][1]);
      *reinterpret_cast<std::uint32_t*>(su + below) =
          pack2(u[j][2] + f1 * ks[j][2], u[j][3] + f1 * ks[j][3]);
      const float2 o0 = unpack2(*reinterpret_cast<const std::uint32_t*>(stage + M::d_out + place));
      const float2 o1 = unpack2(*reinterpret_cast<const std::uint32_t*>(stage + M::d_out + below));
      const float x0 = p.scale * e0, x1 = p.scale * e1;
      *reinterpret_cast<std::uint32_t*>(so + place) = pack2(x0 * o0.x, x0 * o0.y);
      *reinterpret_cast<std::uint32_t*>(so + below) = pack2(x1 * o1.x, x1 * o1.y);
    }
    __syncthreads();
    // U~ = T^T dV', dV = beta U~
    float w[kTiles][4] = {};
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k >= at.warp) {
        std::uint32_t a[4];
        load_a(a, stage + M::inverse, M::t_stride, 16 * at.warp, 16 * k, at.lane);
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t right[4];
          load_b(right, su, M::value_stride, 16 * k, 8 * j, at.lane);
          mma(w[j], a, right[0], right[1]);
          mma(w[j + 1], a, right[2], right[3]);
        }
      }
    bf16* dv = b.dv + (static_cast<std::int64_t>(chunk.x + row) * p.heads + head) * D + part * DV +
               2 * at.c;
    const std::int64_t eight = static_cast<std::int64_t>(8) * p.heads * D;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) w[j][e] *= e / 2 ? lower.y : upper.y;
      if (row < chunk.y) *reinterpret_cast<std::uint32_t*>(dv + 8 * j) = pack2(w[j][0], w[j][1]);
      if (row + 8 < chunk.y)
        *reinterpret_cast<std::uint32_t*>(dv + eight + 8 * j) = pack2(w[j][2], w[j][3]);
      const int place = row * M::value_stride + 8 * j + 2 * at.c;
      *reinterpret_cast<std::uint32_t*>(sv + place) = pack2(-e0 * w[j][0], -e0 * w[j][1]);
      *reinterpret_cast<std::uint32_t*>(sv + place + 8 * M::value_stride) =
          pack2(-e1 * w[j][2], -e1 * w[j][3]);
    }
    __syncthreads();
    // dS = 2^{gamma_C} dS+ + Q^T (scale 2^gamma dO) - K^T (2^gamma dV)
    const float keep = exp2_fast(whole);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kTiles; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) s[i][j][e] *= keep;
    if (of.owns_state) {
      add_to_state<D, DV, M>(s, stage + M::query, so, at);
      add_to_state<D, DV, M>(s, stage + M::key, sv, at);
      round_state<D, DV, M>(ss, s, at);
    }
  }
  copies_wait<0>();
}

} // namespace assay::delta_rule
