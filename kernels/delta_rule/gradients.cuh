// A chunk and key head per block, its value heads in turn: dQ, dK, dg and dbeta, given dV and dS+.
// dO takes dV's place in shared memory and S that of dS+, so that two blocks of width 128 share an
// SM and one computes while the other waits for its loads.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

template <int D> struct GradientsMemory { // elements of bf16
  static constexpr int stride = D + kPad, tile = kChunk * stride;
  static constexpr int query = 0, key = tile, update = 2 * tile, value = 3 * tile, state = 4 * tile,
                       decay = state + D * stride; // float2; then float
  static constexpr int bytes = 2 * decay + kChunk * 8 + (3 * kChunk + 4) * 4;
};
template <int D> constexpr int gradients_bytes() {
  return GradientsMemory<D>::bytes;
}

// Blocks of 16 columns of two products of a warp's 16 rows, as left operands: of the first up to
// the diagonal, of the second from it. That makes five for every warp: no warp waits for another.
struct Pairs {
  std::uint32_t block[5][4];
};

// Products of a warp's 16 rows.
template <int D> struct GradientRows {
  static constexpr int kStride = D + kPad, kTiles = D / 8;
  using Sums = float[kTiles][4];
  Lane at;
  int row = 16 * at.warp + at.r;

  // first second^T up to the diagonal and second first^T from it. `weigh` gives an element by
  // value, decay, row, column, and whether it is of the former.
  template <class Weigh>
  __device__ __forceinline__ void pairs(
      Pairs& to, const bf16* first, const bf16* second, const float2* decay, Weigh&& weigh) const {
    const float g0 = decay[row].x, g1 = decay[row + 8].x;
    float x[5][2][4] = {};
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t a[2][4];
      load_a(a[0], first, kStride, 16 * at.warp, k, at.lane);
      load_a(a[1], second, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
      for (int i = 0; i < 5; ++i) {
        const bool former = is_former(i);
        const std::uint32_t left[4] = {former ? a[0][0] : a[1][0],
                                       former ? a[0][1] : a[1][1],
                                       former ? a[0][2] : a[1][2],
                                       former ? a[0][3] : a[1][3]};
        std::uint32_t b[4];
        load_b_t(b, former ? second : first, kStride, k, column(i), at.lane);
        mma(x[i][0], left, b[0], b[1]);
        mma(x[i][1], left, b[2], b[3]);
      }
    }
#pragma unroll
    for (int i = 0; i < 5; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int y = column(i) + 8 * j + 2 * at.c;
        const float4 g = *reinterpret_cast<const float4*>(decay + y); // of two columns
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float between = (e / 2 ? g1 : g0) - (e % 2 ? g.z : g.x);
          x[i][j][e] = weigh(x[i][j][e],
                             exp2_fast(is_former(i) ? between : -between),
                             row + e / 2 * 8,
                             y + e % 2,
                             is_former(i));
        }
      }
      as_left(to.block[i], x[i][0], x[i][1]);
    }
  }
  __device__ __forceinline__ bool is_former(int i) const {
    return i <= at.warp;
  }
  __device__ __forceinline__ int column(int i) const {
    return 16 * (is_former(i) ? i : i - 1);
  }
  // x += the former blocks, or the others, times rows
  template <bool kFormer>
  __device__ __forceinline__ void add_pairs(Sums& x, const Pairs& pairs, const bf16* rows) const {
#pragma unroll
    for (int i = kFormer ? 0 : 1; i < (kFormer ? 4 : 5); ++i)
      if (is_former(i) == kFormer) {
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t b[4];
          load_b(b, rows, kStride, column(i), 8 * j, at.lane);
          mma(x[j], pairs.block[i], b[0], b[1]);
          mma(x[j + 1], pairs.block[i], b[2], b[3]);
        }
      }
  }
  // x = left S^T times a factor for each of the two rows
  __device__ __forceinline__ void
  times_state(Sums& x, const bf16* left, const bf16* state, float upper, float lower) const {
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) x[j][e] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
      std::uint32_t a[4];
      load_a(a, left, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
      for (int j = 0; j < kTiles; j += 2) {
        std::uint32_t b[4];
        load_b(b, state, kStride, k, 8 * j, at.lane);
        mma(x[j], a, b[0], b[1]);
        mma(x[j + 1], a, b[2], b[3]);
      }
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
      x[j][0] *= upper, x[j][1] *= upper, x[j][2] *= lower, x[j][3] *= lower;
  }
  // The same, added to x: four tiles at a time, for registers.
  __device__ __forceinline__ void
  add_times_state(Sums& x, const bf16* left, const bf16* state, float upper, float lower) const {
#pragma unroll
    for (int j = 0; j < kTiles; j += 4) {
      float part[4][4] = {};
#pragma unroll
      for (int k = 0; k < D; k += 16) {
        std::uint32_t a[4];
        load_a(a, left, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
          std::uint32_t b[4];
          load_b(b, state, kStride, k, 8 * (j + i), at.lane);
          mma(part[i], a, b[0], b[1]);
          mma(part[i + 1], a, b[2], b[3]);
        }
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[j + i][0] += upper * part[i][0], x[j + i][1] += upper * part[i][1];
        x[j + i][2] += lower * part[i][2], x[j + i][3] += lower * part[i][3];
      }
    }
  }
  // x . with, row by row
  __device__ __forceinline__ float2 along(const Sums& x, const bf16* with) const {
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const bf16* y = with + row * kStride + 8 * j + 2 * at.c;
      const float2 y0 = unpack2(*reinterpret_cast<const std::uint32_t*>(y));
      const float2 y1 = unpack2(*reinterpret_cast<const std::uint32_t*>(y + 8 * kStride));
      sum.x += x[j][0] * y0.x + x[j][1] * y0.y, sum.y += x[j][2] * y1.x + x[j][3] * y1.y;
    }
    return make_float2(sum_lanes<4>(sum.x), sum_lanes<4>(sum.y));
  }
  // The warp's rows through `room`, of which it alone uses its rows; on top of what is there with
  // `add`. A thread reads only what it wrote itself.
  __device__ __forceinline__ void
  store(bf16* to, std::int64_t stride, bf16* room, const Sums& x, int exists, bool add) const {
    constexpr int kWords = 16 * D / 8 / 32, kStep = 16 / kWords; // rows at a time
    const int y = 16 * at.warp + at.lane / (D / 8), column = at.lane % (D / 8) * 8;
    to += y * stride + column;
    uint4 before[kWords];
#pragma unroll
    for (int i = 0; i < kWords; ++i) before[i] = make_uint4(0, 0, 0, 0);
    if (add)
#pragma unroll
      for (int i = 0; i < kWords; ++i)
        if (y + i * kStep < exists)
          before[i] = *reinterpret_cast<const uint4*>(to + i * kStep * stride);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        *reinterpret_cast<std::uint32_t*>(room + (row + 8 * i) * kStride + 8 * j + 2 * at.c) =
            pack2(x[j][2 * i], x[j][2 * i + 1]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const uint4 own = *reinterpret_cast<const uint4*>(room + (y + i * kStep) * kStride + column);
      if (y + i * kStep < exists)
        store16(to + i * kStep * stride,
                add2(own.x, before[i].x),
                add2(own.y, before[i].y),
                add2(own.z, before[i].z),
                add2(own.w, before[i].w));
    }
  }
  static __device__ __forceinline__ std::uint32_t add2(std::uint32_t x, std::uint32_t y) {
    const float2 a = unpack2(x), b = unpack2(y);
    return pack2(a.x + b.x, a.y + b.y);
  }
};

// This thread's part of <S, dS+>: S in global memory, dS+ in shared memory.
template <int D> __device__ __forceinline__ float inner_part(const bf16* x, const bf16* y) {
  float sum = 0;
#pragma unroll 4
  for (int word = thread_index(); word < D * D / 8; word += kThreads) {
    float a[8], b[8];
    load(a, x + 8 * word), load(b, y + word / (D / 8) * (D + kPad) + word % (D / 8) * 8);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum += a[e] * b[e];
  }
  return sum;
}

// By one warp: dg = sums of dgamma from the end, and dbeta = rate / beta^2. `last` adds to the
// last.
__device__ __forceinline__ void store_rates(const Gradients& b,
                                            const float* dgamma,
                                            const float* rate,
                                            const float2* decay,
                                            float last,
                                            int2 chunk,
                                            int head,
                                            int lane) {
  const float x[2] = {dgamma[2 * lane], dgamma[2 * lane + 1]};
  float sum = x[0] + x[1];
  for (int d = 1; d < 32; d *= 2) {
    const float before = __shfl_up_sync(0xffffffffu, sum, d);
    if (lane >= d) sum += before;
  }
  const float total = __shfl_sync(0xffffffffu, sum, 31) + last;
  const float after1 = total - sum + x[1], after0 = total - sum + x[0] + x[1];
  for (int i = 0; i < 2; ++i) {
    const int y = 2 * lane + i;
    if (y >= chunk.y) continue;
    const std::int64_t place = static_cast<std::int64_t>(chunk.x + y) * b.problem.heads + head;
    b.dg[place] = i ? after1 : after0;
    b.d_beta[place] = decay[y].y > 0 ? rate[y] / (decay[y].y * decay[y].y) : 0.f;
  }
}

template <int D>
__global__ void __launch_bounds__(kThreads, D == 128 ? 2 : 3) gradients(Gradients b) {
  using M = GradientsMemory<D>;
  using Rows = GradientRows<D>;
  const Problem& p = b.problem;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sq = memory + M::query, *sk = memory + M::key, *su = memory + M::update,
       *so = memory + M::value, *ss = memory + M::state; // so: dV, then dO; ss: dS+, then S
  float2* decay = reinterpret_cast<float2*>(memory + M::decay);
  float *dgamma = reinterpret_cast<float*>(decay + kChunk), *rate = dgamma + kChunk,
        *leave = rate + kChunk, *sums = leave + kChunk;
  const Rows rows;
  const Lane& at = rows.at;
  const int row = rows.row, group = p.heads / p.heads_k;
  const int n = block_index() / p.heads_k, key_head = block_index() % p.heads_k;
  const int2 chunk = p.chunk[n];
  if (chunk.y == 0) return; // room of a table that the batch leaves empty
  const std::int64_t keys = (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D,
                     key_stride = static_cast<std::int64_t>(p.heads_k) * D,
                     value_stride = static_cast<std::int64_t>(p.heads) * D;
  wait_for_kernel_before();
  for (int head = key_head * group; head < (key_head + 1) * group; ++head) {
    const bool first = head == key_head * group;
    const std::int64_t values = (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D,
                       place = static_cast<std::int64_t>(n) * p.heads + head;
    if (!first) __syncthreads();
    load_rows<kChunk, D>(so, M::stride, b.dv + values, value_stride, chunk.y);
    load_rows<kChunk, D>(su, M::stride, p.update + values, value_stride, chunk.y);
    if (thread_index() < 32)
      copy16(decay + 2 * thread_index(), p.decay + place * kChunk + 2 * thread_index(), true);
    copies_commit();
    load_rows<D, D>(ss, M::stride, b.d_states + place * D * D, D, D);
    if (first) {
      load_rows<kChunk, D>(sk, M::stride, p.k + keys, key_stride, chunk.y);
      load_rows<kChunk, D>(sq, M::stride, p.q + keys, key_stride, chunk.y);
    }
    copies_commit();
    copies_wait<1>();
    __syncthreads();

    const float g0 = decay[row].x, g1 = decay[row + 8].x, whole = decay[kChunk - 1].x;
    const float e0 = exp2_fast(g0), e1 = exp2_fast(g1);
    Pairs pairs;                // Y and Y^T, then X and X^T
    float along_values[2] = {}; // dV . V', where this lane has the diagonal
    rows.pairs(pairs, so, su, decay, [&](float x, float between, int i, int j, bool former) {
      if (former && i == j) along_values[i != row] = x;
      return (former ? j < i : j > i) ? -x * between : 0.f;
    });
    if (at.r / 2 == at.c) rate[row] = along_values[0], rate[row + 8] = along_values[1];
    copies_wait<0>();
    __syncthreads();
    // k1 + k3 = 2^{gamma_C - gamma} V' dS+^T + Y^T K + X^T Q, of which the first two
    const float inner = sum_lanes<32>(inner_part<D>(p.states + place * D * D, ss));
    if (at.lane == 0) sums[at.warp] = inner;
    typename Rows::Sums acc;
    rows.times_state(acc, su, ss, exp2_fast(whole - g0), exp2_fast(whole - g1));
    const float2 leaving = rows.along(acc, sk);
    if (at.c == 0) leave[row] = leaving.x, leave[row + 8] = leaving.y;
    __syncthreads(); // dS+ is read
    load_rows<D, D>(ss, M::stride, p.states + place * D * D, D, D);
    copies_commit();
    rows.template add_pairs<false>(acc, pairs, sk);
    const float2 without = rows.along(acc, sk);
    // k2 = Y K - 2^gamma dV S^T
    rows.template add_pairs<true>(acc, pairs, sk);
    copies_wait<0>();
    __syncthreads();
    rows.add_times_state(acc, so, ss, -e0, -e1);
    __syncthreads(); // dV is read
    load_rows<kChunk, D>(so, M::stride, b.d_out + values, value_stride, chunk.y);
    copies_commit();
    const float2 with = rows.along(acc, sk);
    copies_wait<0>();
    __syncthreads();
    rows.pairs(pairs, so, su, decay, [&](float x, float between, int i, int j, bool former) {
      return (former ? j <= i : j >= i) ? p.scale * x * between : 0.f;
    });
    __syncthreads(); // only a warp's own rows of V' and dO are read from here on
    rows.template add_pairs<false>(acc, pairs, sq);
    const float2 all = rows.along(acc, sk);
    rows.store(b.dk + keys, key_stride, su, acc, chunk.y, !first);
    // dQ = X K + scale 2^gamma dO S^T
    rows.times_state(acc, so, ss, p.scale * e0, p.scale * e1);
    rows.template add_pairs<true>(acc, pairs, sk);
    // dgamma = q.dQ - k.k1 + k.k2 - k.k3
    const float2 dg = rows.along(acc, sq);
    rows.store(b.dq + keys, key_stride, so, acc, chunk.y, !first);
    if (at.c == 0) {
      dgamma[row] = dg.x + 2 * (with.x - without.x) - all.x;
      dgamma[row + 8] = dg.y + 2 * (with.y - without.y) - all.y;
    }
    __syncthreads();
    if (at.warp == 0) {
      const float last = sum_lanes<32>(leave[2 * at.lane] + leave[2 * at.lane + 1]) +
                         exp2_fast(whole) * (sums[0] + sums[1] + sums[2] + sums[3]);
      store_rates(b, dgamma, rate, decay, last, chunk, head, at.lane);
    }
  }
}

} // namespace assay::delta_rule
