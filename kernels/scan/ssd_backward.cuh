// Gradients of b, c and a of SSD (ssd_forward.cuh), from the states that enter (S) and the
// gradients of those that leave (dS) every chunk. A block takes a chunk and all heads of a group,
// so that the sums over heads stay in registers: W = sum over heads of dY X^T * L is summed before
// it meets B and C. end: gamma of the chunk's last token.
//   dC = W B + sum 2^gamma dY S^T           dB = W^T C + sum 2^{end - gamma} X dS^T
//   E = (dY X^T * L) * (C B^T), strictly below the diagonal; of a head:
//   dgamma_i = sum_j E_ij - sum_j E_ji + c_i.(2^gamma dY S^T)_i - b_i.(2^{end - gamma} X dS^T)_i
//   da: sums of dgamma from the end + sum_i b_i.(2^{end - gamma} X dS^T)_i + 2^end <S, dS>
#pragma once

#include "kernels/scan/ssd_forward.cuh"

namespace assay::scan {

constexpr int kGradientThreads = 256; // 4 bands of 16 tokens x 2 halves of the columns

template <int N> struct SsdGradientsMemory { // elements of bf16, but `sums` and `bytes`
  static constexpr int key_stride = N + kPad;
  static constexpr int d_out = 0, x = d_out + kChunk * kStride, state = x + kChunk * kStride,
                       d_state = state + N * kStride, stage = d_state + N * kStride;
  static constexpr int c = 2 * stage, b = c + kChunk * key_stride,
                       factors = b + kChunk * key_stride;
  // floats, twice: rows of E and crossings [2][64], crossings to the end [2][64], columns of E
  // [4][64], <S, dS> [8], decay
  static constexpr int sums = 512 + 16;
  static constexpr int bytes = factors * 2 + 2 * static_cast<int>(sizeof(Factors)) + 2 * sums * 4;
};

template <int N>
__global__ void __launch_bounds__(kGradientThreads, N == 64 ? 2 : 1)
    ssd_gradients(SsdGradients back) {
  const Ssd& p = back.problem;
  using M = SsdGradientsMemory<N>;
  constexpr int kTiles = N / 16; // of 8 columns, half of N
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sc = memory + M::c, *sb = memory + M::b;
  Factors* factors = reinterpret_cast<Factors*>(memory + M::factors);
  float* all_sums = reinterpret_cast<float*>(factors + 2);
  const Lane at;
  const int band = at.warp % 4, half = at.warp / 4, row = 16 * band + at.r;
  const int n = block_index() / p.groups, group = block_index() % p.groups;
  const int heads = p.at.heads / p.groups, first_head = group * heads;
  const int2 chunk = p.at.chunk[n];
  const std::int64_t keys = (wide(chunk.x) * p.groups + group) * N,
                     keys_stride = wide(p.groups) * N;
  const std::int64_t value_stride = wide(p.at.heads) * kWidth;

  const auto load = [&](int h) {
    if (h < heads) {
      bf16* to = memory + h % 2 * M::stage;
      const int head = first_head + h;
      const std::int64_t values = (wide(chunk.x) * p.at.heads + head) * kWidth,
                         state = (wide(n) * p.at.heads + head) * N * kWidth;
      load_rows<kChunk, kWidth, kGradientThreads>(
          to + M::d_out, kStride, back.d_out + values, value_stride, chunk.y);
      load_rows<kChunk, kWidth, kGradientThreads>(
          to + M::x, kStride, p.x + values, value_stride, chunk.y);
      load_rows<N, kWidth, kGradientThreads>(to + M::state, kStride, p.states + state, kWidth, N);
      load_rows<N, kWidth, kGradientThreads>(
          to + M::d_state, kStride, back.d_states + state, kWidth, N);
    }
    copies_commit();
  };
  // Warps 4 and 5 (upper rows, right columns) have no E: one makes a head's decays, one ends the
  // head before.
  float a0 = 0, a1 = 0;
  const auto fetch = [&](int h) {
    if (at.warp != 4 || h >= heads) return;
    const float* a = p.a + wide(chunk.x) * p.at.heads + first_head + h;
    a0 = 2 * at.lane < chunk.y ? a[wide(2 * at.lane) * p.at.heads] : 0.f;
    a1 = 2 * at.lane + 1 < chunk.y ? a[wide(2 * at.lane + 1) * p.at.heads] : 0.f;
  };
  const auto publish = [&](int h) {
    if (at.warp == 4) factors_of<false>(factors[h & 1], a0, a1, at.lane);
  };
  const auto finish = [&](int h) { // da of a head
    if (at.warp != 5) return;
    const float *rows = all_sums + (h & 1) * M::sums, *to = rows + 128, *columns = to + 128,
                *inner = columns + 256;
    float d[2];
    float tail = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int y = 2 * at.lane + i;
      d[i] = rows[y] + rows[64 + y];
      for (int g = y / 16; g < 4; ++g) d[i] -= columns[64 * g + y];
      tail += to[y] + to[64 + y];
    }
#pragma unroll
    for (int i = 1; i < 32; i *= 2) tail += __shfl_xor_sync(0xffffffffU, tail, i);
    float dot = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) dot += inner[w];
    tail += inner[8] * dot;
    float sum = d[0] + d[1];
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
      const float before = __shfl_up_sync(0xffffffffU, sum, i);
      if (at.lane >= i) sum += before;
    }
    const float after = __shfl_sync(0xffffffffU, sum, 31) - sum + tail; // of this lane's rows
    float* da = back.da + wide(chunk.x) * p.at.heads + first_head + h;
    if (2 * at.lane < chunk.y) da[wide(2 * at.lane) * p.at.heads] = after + d[0] + d[1];
    if (2 * at.lane + 1 < chunk.y) da[wide(2 * at.lane + 1) * p.at.heads] = after + d[1];
  };

  load_rows<kChunk, N, kGradientThreads>(sc, M::key_stride, p.c + keys, keys_stride, chunk.y);
  load_rows<kChunk, N, kGradientThreads>(sb, M::key_stride, p.b + keys, keys_stride, chunk.y);
  load(0);
  fetch(0);
  publish(0);
  fetch(1);
  float cb[4][4] = {}, w_sum[4][4] = {}; // rows of this band, columns 32 half …
  float dc[kTiles][4] = {}, db[kTiles][4] = {};
  for (int h = 0; h < heads; ++h) {
    copies_wait<0>();
    __syncthreads();
    load(h + 1);
    if (h + 1 < heads) {
      publish(h + 1);
      fetch(h + 2);
    }
    if (h == 0) {
#pragma unroll
      for (int k = 0; k < N; k += 16) {
        std::uint32_t left[4];
        load_a(left, sc, M::key_stride, 16 * band, k, at.lane);
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (2 * half + j <= band) {
            std::uint32_t right[4];
            load_b_t(right, sb, M::key_stride, k, 32 * half + 16 * j, at.lane);
            mma(cb[2 * j], left, right[0], right[1]);
            mma(cb[2 * j + 1], left, right[2], right[3]);
          }
      }
    } else {
      finish(h - 1);
    }
    const bf16* stage = memory + h % 2 * M::stage;
    const Factors& of = factors[h & 1];
    float *rows = all_sums + (h & 1) * M::sums, *to = rows + 128, *columns = to + 128,
          *inner = columns + 256;
    // What crosses the chunk's borders: += factor left state^T; sums of its products with `own`
    // rows.
    const auto crossing = [&](float(&sum)[kTiles][4],
                              int left_at,
                              int state_at,
                              const bf16* own,
                              const float* factor,
                              float& upper,
                              float& lower) {
      float x[kTiles][4] = {};
#pragma unroll
      for (int k = 0; k < kWidth; k += 16) {
        std::uint32_t left[4];
        load_a(left, stage + left_at, kStride, 16 * band, k, at.lane);
#pragma unroll
        for (int j = 0; j < kTiles; j += 2) {
          std::uint32_t right[4];
          load_b_t(right, stage + state_at, kStride, k, half * (N / 2) + 8 * j, at.lane);
          mma(x[j], left, right[0], right[1]);
          mma(x[j + 1], left, right[2], right[3]);
        }
      }
      const float f0 = factor[row], f1 = factor[row + 8];
      upper = lower = 0;
#pragma unroll
      for (int j = 0; j < kTiles; j += 2) {
        float y[2][4];
        take_rows(
            y, own + 16 * band * M::key_stride + half * (N / 2) + 8 * j, M::key_stride, at.lane);
#pragma unroll
        for (int i = j; i < j + 2; ++i) {
          x[i][0] *= f0, x[i][1] *= f0, x[i][2] *= f1, x[i][3] *= f1;
          upper += x[i][0] * y[i - j][0] + x[i][1] * y[i - j][1];
          lower += x[i][2] * y[i - j][2] + x[i][3] * y[i - j][3];
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[i][e] += x[i][e];
        }
      }
#pragma unroll
      for (int d = 1; d < 4; d *= 2) {
        upper += __shfl_xor_sync(0xffffffffU, upper, d);
        lower += __shfl_xor_sync(0xffffffffU, lower, d);
      }
    };
    float from0, from1, to0, to1;
    crossing(dc, M::d_out, M::state, sc, of.enter, from0, from1);
    crossing(db, M::x, M::d_state, sb, of.leave, to0, to1);
    if (at.c == 0) to[64 * half + row] = to0, to[64 * half + row + 8] = to1;
    float row0 = from0 - to0, row1 = from1 - to1;
    if (2 * half <= band) {
      const float g0 = of.gamma[row], g1 = of.gamma[row + 8];
      float w[4][4] = {};
#pragma unroll
      for (int k = 0; k < kWidth; k += 16) {
        std::uint32_t left[4];
        load_a(left, stage + M::d_out, kStride, 16 * band, k, at.lane);
#pragma unroll
        for (int j = 0; j < 2; ++j)
          if (2 * half + j <= band) {
            std::uint32_t right[4];
            load_b_t(right, stage + M::x, kStride, k, 32 * half + 16 * j, at.lane);
            mma(w[2 * j], left, right[0], right[1]);
            mma(w[2 * j + 1], left, right[2], right[3]);
          }
      }
      float of_row0 = 0, of_row1 = 0, of_column[8] = {};
#pragma unroll
      for (int nt = 0; nt < 4; ++nt)
        if (2 * half + nt / 2 <= band) {
          const int column = 32 * half + 8 * nt + 2 * at.c;
          const float2 gj = *reinterpret_cast<const float2*>(of.gamma + column);
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const float g = e ? gj.y : gj.x;
            const float upper = column + e <= row ? w[nt][e] * exp2_fast(g0 - g) : 0.f;
            const float lower = column + e <= row + 8 ? w[nt][2 + e] * exp2_fast(g1 - g) : 0.f;
            w_sum[nt][e] += upper, w_sum[nt][2 + e] += lower;
            const float e0 = column + e < row ? upper * cb[nt][e] : 0.f;
            const float e1 = column + e < row + 8 ? lower * cb[nt][2 + e] : 0.f;
            of_row0 += e0, of_row1 += e1, of_column[2 * nt + e] = e0 + e1;
          }
        }
      sum_columns(of_column, at);
      columns[64 * band + 32 * half + 8 * (at.r / 2) + 2 * at.c + at.r % 2] = of_column[0];
#pragma unroll
      for (int d = 1; d < 4; d *= 2) {
        of_row0 += __shfl_xor_sync(0xffffffffU, of_row0, d);
        of_row1 += __shfl_xor_sync(0xffffffffU, of_row1, d);
      }
      row0 += of_row0, row1 += of_row1;
    }
    if (at.c == 0) rows[64 * half + row] = row0, rows[64 * half + row + 8] = row1;
    float dot = 0;
#pragma unroll
    for (int i = 0; i < N * kWidth / 8 / kGradientThreads; ++i) {
      const int word = thread_index() + i * kGradientThreads,
                where = word / 8 * kStride + word % 8 * 8;
      const uint4 x = *reinterpret_cast<const uint4*>(stage + M::state + where),
                  y = *reinterpret_cast<const uint4*>(stage + M::d_state + where);
      const std::uint32_t xs[4] = {x.x, x.y, x.z, x.w}, ys[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 f = unpack2(xs[e]), g = unpack2(ys[e]);
        dot += f.x * g.x + f.y * g.y;
      }
    }
#pragma unroll
    for (int d = 1; d < 32; d *= 2) dot += __shfl_xor_sync(0xffffffffU, dot, d);
    if (at.lane == 0) inner[at.warp] = dot;
    if (thread_index() == 0) inner[8] = exp2_fast(of.gamma[kChunk - 1]);
  }
  // W takes the place of the first stage.
  __syncthreads();
  finish(heads - 1);
  bf16* sw = memory;
#pragma unroll
  for (int nt = 0; nt < 4; ++nt)
    if (2 * half + nt / 2 <= band) {
      bf16* to = sw + row * kStride + 32 * half + 8 * nt + 2 * at.c;
      put(to, w_sum[nt][0], w_sum[nt][1]);
      put(to + 8 * kStride, w_sum[nt][2], w_sum[nt][3]);
    }
  __syncthreads();
#pragma unroll
  for (int block = 0; block < 4; ++block) {
    const auto add = [&](float(&sum)[kTiles][4], const std::uint32_t(&left)[4], const bf16* with) {
#pragma unroll
      for (int j = 0; j < kTiles; j += 2) {
        std::uint32_t right[4];
        load_b(right, with, M::key_stride, 16 * block, half * (N / 2) + 8 * j, at.lane);
        mma(sum[j], left, right[0], right[1]);
        mma(sum[j + 1], left, right[2], right[3]);
      }
    };
    std::uint32_t left[4];
    if (block <= band) {
      load_a(left, sw, kStride, 16 * band, 16 * block, at.lane);
      add(dc, left, sb);
    }
    if (block >= band) {
      load_a_t(left, sw, kStride, 16 * band, 16 * block, at.lane);
      add(db, left, sc);
    }
  }
  const std::int64_t place = keys + row * keys_stride + half * (N / 2), eight = 8 * keys_stride;
  const auto store = [&](bf16* to, const float(&x)[kTiles][4]) {
#pragma unroll
    for (int j = 0; j < kTiles; j += 2) {
      store_pair(to + place,
                 j,
                 pack2(x[j][0], x[j][1]),
                 pack2(x[j + 1][0], x[j + 1][1]),
                 at.c,
                 row < chunk.y);
      store_pair(to + place + eight,
                 j,
                 pack2(x[j][2], x[j][3]),
                 pack2(x[j + 1][2], x[j + 1][3]),
                 at.c,
                 row + 8 < chunk.y);
    }
  };
  store(back.dc, dc);
  store(back.db, db);
}

} // namespace assay::scan
