// A chunk and head per block: dQ, dK, dg and dbeta, given dV and dS+.
#pragma once

#include "kernels/delta_rule/reverse.cuh"

namespace assay::delta_rule {

template <int D> constexpr int gradients_bytes() {
  return (5 * kChunk + 2 * D) * (D + kPad) * 2 + kChunk * 8 + (3 * kChunk + 4) * 4;
}

// Rows of this warp of left right^T, as the left operand of a product over the rows of `right`;
// `weigh` gives an element's factor by value, row and column. Blocks from `from` to `to` (of 16
// columns).
template <int D, class Weigh>
__device__ __forceinline__ void pair_weights(std::uint32_t (&weights)[4][4],
                                             const bf16* left,
                                             const bf16* right,
                                             int from,
                                             int to,
                                             const Lane& at,
                                             Weigh&& weigh) {
  constexpr int kStride = D + kPad;
#pragma unroll
  for (int block = 0; block < 4; ++block)
    if (block >= from && block < to) {
      float x[2][4] = {};
#pragma unroll
      for (int k = 0; k < D; k += 16) {
        std::uint32_t a[4], r[4];
        load_a(a, left, kStride, 16 * at.warp, k, at.lane);
        load_b_t(r, right, kStride, k, 16 * block, at.lane);
        mma(x[0], a, r[0], r[1]);
        mma(x[1], a, r[2], r[3]);
      }
#pragma unroll
      for (int nt = 0; nt < 2; ++nt)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          x[nt][e] = weigh(x[nt][e],
                           16 * at.warp + at.r + 8 * (e / 2),
                           16 * block + 8 * nt + 2 * at.c + (e & 1));
      as_left(weights[block], x[0], x[1]);
    }
}

template <int D> __global__ void __launch_bounds__(kThreads) gradients(Gradients b) {
  constexpr int kStride = D + kPad, kTiles = D / 8;
  const Problem& p = b.problem;
  bf16* sq = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sk = sq + kChunk * kStride, *su = sk + kChunk * kStride, *so = su + kChunk * kStride,
       *sv = so + kChunk * kStride, *ss = sv + kChunk * kStride, *sd = ss + D * kStride;
  float2* decay = reinterpret_cast<float2*>(sd + D * kStride);
  float *dgamma = reinterpret_cast<float*>(decay + kChunk), *leave = dgamma + kChunk,
        *rate = leave + kChunk, *sums = rate + kChunk;
  const Lane at;
  const int n = block_index() / p.heads, head = block_index() % p.heads;
  const int2 chunk = p.chunk[n];
  if (chunk.y == 0) return; // room of a table that the batch leaves empty
  const int key_head = head / (p.heads / p.heads_k);
  const std::int64_t keys = (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D,
                     values = (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D,
                     value_stride = static_cast<std::int64_t>(p.heads) * D,
                     square = static_cast<std::int64_t>(blockIdx.x) * D * D;
  load_rows<kChunk, D>(so, kStride, b.d_out + values, value_stride, chunk.y);
  load_rows<kChunk, D>(su, kStride, p.update + values, value_stride, chunk.y);
  load_rows<D, D>(ss, kStride, p.states + square, D, D);
  if (thread_index() < 32)
    copy16(decay + 2 * thread_index(),
           p.decay + static_cast<std::int64_t>(blockIdx.x) * kChunk + 2 * thread_index(),
           true);
  copies_commit();
  load_rows<kChunk, D>(sk, kStride, p.k + keys, static_cast<std::int64_t>(p.heads_k) * D, chunk.y);
  load_rows<kChunk, D>(sq, kStride, p.q + keys, static_cast<std::int64_t>(p.heads_k) * D, chunk.y);
  load_rows<kChunk, D>(sv, kStride, b.dv + values, value_stride, chunk.y);
  load_rows<D, D>(sd, kStride, b.d_states + square, D, D);
  copies_commit();
  copies_wait<1>();
  __syncthreads();

  const int row = 16 * at.warp + at.r;
  const float g0 = decay[row].x, g1 = decay[row + 8].x, whole = decay[kChunk - 1].x;
  const float e0 = exp2_fast(g0), e1 = exp2_fast(g1);
  const auto sum_rows =
      [&](const float(&x)[kTiles][4], const bf16* with, float& upper, float& lower) {
        upper = lower = 0;
#pragma unroll
        for (int j = 0; j < kTiles; ++j) {
          const bf16* y = with + row * kStride + 8 * j + 2 * at.c;
          const float2 y0 = unpack2(*reinterpret_cast<const std::uint32_t*>(y));
          const float2 y1 = unpack2(*reinterpret_cast<const std::uint32_t*>(y + 8 * kStride));
          upper += x[j][0] * y0.x + x[j][1] * y0.y;
          lower += x[j][2] * y1.x + x[j][3] * y1.y;
        }
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
          upper += __shfl_xor_sync(0xffffffffu, upper, d);
          lower += __shfl_xor_sync(0xffffffffu, lower, d);
        }
      };
  const auto product_t =
      [&](float(&x)[kTiles][4], const bf16* left, const bf16* right) { // += left right^T
#pragma unroll
        for (int k = 0; k < D; k += 16) {
          std::uint32_t a[4];
          load_a(a, left, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
          for (int j = 0; j < kTiles; j += 2) {
            std::uint32_t r[4];
            load_b_t(r, right, kStride, k, 8 * j, at.lane);
            mma(x[j], a, r[0], r[1]);
            mma(x[j + 1], a, r[2], r[3]);
          }
        }
      };
  const auto weighted = [&](float(&x)[kTiles][4],
                            const std::uint32_t(&weights)[4][4],
                            const bf16* rows,
                            int from,
                            int to) { // += weights rows
#pragma unroll
    for (int block = 0; block < 4; ++block)
      if (block >= from && block < to) {
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t r[4];
          load_b(r, rows, kStride, 16 * block, 8 * j, at.lane);
          mma(x[j], weights[block], r[0], r[1]);
          mma(x[j + 1], weights[block], r[2], r[3]);
        }
      }
  };
  const auto times = [&](float(&x)[kTiles][4], float upper, float lower) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      x[j][0] *= upper, x[j][1] *= upper, x[j][2] *= lower, x[j][3] *= lower;
  };

  std::uint32_t weights[4][4];
  float acc[kTiles][4] = {};
  // dQ = X K + scale 2^gamma dO S^T
  pair_weights<D>(weights, so, su, 0, at.warp + 1, at, [&](float x, int i, int j) {
    return j <= i ? p.scale * x * exp2_fast(decay[i].x - decay[j].x) : 0.f;
  });
  product_t(acc, so, ss);
  times(acc, p.scale * e0, p.scale * e1);
  copies_wait<0>();
  __syncthreads();
  weighted(acc, weights, sk, 0, at.warp + 1);
  float dg0, dg1;
  sum_rows(acc, sq, dg0, dg1);
  std::uint32_t dq[kTiles][2];
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
    dq[j][0] = pack2(acc[j][0], acc[j][1]), dq[j][1] = pack2(acc[j][2], acc[j][3]);

    // k1 = 2^{gamma_C - gamma} V' dS+^T + X^T Q
#pragma unroll
  for (int j = 0; j < kTiles; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[j][e] = 0;
  product_t(acc, su, sd);
  times(acc, exp2_fast(whole - g0), exp2_fast(whole - g1));
  float s0, s1;
  sum_rows(acc, sk, s0, s1);
  if (at.c == 0) leave[row] = s0, leave[row + 8] = s1;
  pair_weights<D>(weights, su, so, at.warp, 4, at, [&](float x, int j, int i) {
    return i >= j ? p.scale * x * exp2_fast(decay[i].x - decay[j].x) : 0.f;
  });
  weighted(acc, weights, sq, at.warp, 4);
  sum_rows(acc, sk, s0, s1);
  dg0 -= 2 * s0, dg1 -= 2 * s1;
  // k2 = Y K - 2^gamma dV S^T
#pragma unroll
  for (int j = 0; j < kTiles; j += 4) { // four tiles at a time, for registers
    float part[4][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t a[4];
      load_a(a, sv, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        std::uint32_t r[4];
        load_b_t(r, ss, kStride, k, 8 * (j + i), at.lane);
        mma(part[i], a, r[0], r[1]);
        mma(part[i + 1], a, r[2], r[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      acc[j + i][0] -= e0 * part[i][0], acc[j + i][1] -= e0 * part[i][1];
      acc[j + i][2] -= e1 * part[i][2], acc[j + i][3] -= e1 * part[i][3];
    }
  }
  pair_weights<D>(weights, sv, su, 0, at.warp + 1, at, [&](float x, int i, int j) {
    if (i == j) rate[i] = x; // dV . V'
    return j < i ? -x * exp2_fast(decay[i].x - decay[j].x) : 0.f;
  });
  weighted(acc, weights, sk, 0, at.warp + 1);
  sum_rows(acc, sk, s0, s1);
  dg0 += 2 * s0, dg1 += 2 * s1;
  // k3 = Y^T K
  pair_weights<D>(weights, su, sv, at.warp, 4, at, [&](float x, int j, int i) {
    return i > j ? -x * exp2_fast(decay[i].x - decay[j].x) : 0.f;
  });
  weighted(acc, weights, sk, at.warp, 4);
  sum_rows(acc, sk, s0, s1);
  if (at.c == 0) dgamma[row] = dg0 - s0, dgamma[row + 8] = dg1 - s1;
  // <S, dS+>
  float inner = 0;
#pragma unroll 4
  for (int i = thread_index(); i < D * D / 8; i += kThreads) {
    const int place = i / (D / 8) * kStride + i % (D / 8) * 8;
    const uint4 x = *reinterpret_cast<const uint4*>(ss + place),
                y = *reinterpret_cast<const uint4*>(sd + place);
    const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 f = unpack2(xs[e]), h = unpack2(ys[e]);
      inner += f.x * h.x + f.y * h.y;
    }
  }
#pragma unroll
  for (int d = 1; d < 32; d *= 2) inner += __shfl_xor_sync(0xffffffffu, inner, d);
  if (at.lane == 0) sums[at.warp] = inner;
  __syncthreads(); // Q and K are read: their places carry the results out
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int place = row * kStride + 8 * j + 2 * at.c, below = place + 8 * kStride;
    *reinterpret_cast<std::uint32_t*>(sq + place) = dq[j][0];
    *reinterpret_cast<std::uint32_t*>(sq + below) = dq[j][1];
    *reinterpret_cast<std::uint32_t*>(sk + place) = pack2(acc[j][0], acc[j][1]);
    *reinterpret_cast<std::uint32_t*>(sk + below) = pack2(acc[j][2], acc[j][3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * D / 8 / 32; ++i) {
    const int word = at.lane + 32 * i, y = 16 * at.warp + word / (D / 8), x = word % (D / 8) * 8;
    if (y < chunk.y) {
      *reinterpret_cast<uint4*>(b.dq + values + y * value_stride + x) =
          *reinterpret_cast<const uint4*>(sq + y * kStride + x);
      *reinterpret_cast<uint4*>(b.dk + values + y * value_stride + x) =
          *reinterpret_cast<const uint4*>(sk + y * kStride + x);
    }
  }
  if (at.warp == 0) { // sums of dgamma from the end
    float x[2] = {dgamma[2 * at.lane], dgamma[2 * at.lane + 1]};
    float left = leave[2 * at.lane] + leave[2 * at.lane + 1];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) left += __shfl_xor_sync(0xffffffffu, left, d);
    const float last = left + exp2_fast(whole) * (sums[0] + sums[1] + sums[2] + sums[3]);
    float sum = x[0] + x[1];
    for (int d = 1; d < 32; d *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, sum, d);
      if (at.lane >= d) sum += before;
    }
    const float total = __shfl_sync(0xffffffffu, sum, 31) + last;
    const float after1 = total - sum + x[1], after0 = total - sum + x[0] + x[1];
    for (int i = 0; i < 2; ++i) {
      const int y = 2 * at.lane + i;
      if (y >= chunk.y) continue;
      const std::int64_t place = static_cast<std::int64_t>(chunk.x + y) * p.heads + head;
      b.dg[place] = i ? after1 : after0;
      b.d_beta[place] = decay[y].y > 0 ? rate[y] / (decay[y].y * decay[y].y) : 0.f;
    }
  }
}

} // namespace assay::delta_rule
