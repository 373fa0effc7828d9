// Gradients of RWKV-6 (rwkv6_forward.cuh) from the states that enter (S) and the gradients of those
// that leave (dS) every chunk; rwkv6_state in reverse made dS. Of block J, with dA = dO V^T:
//   dV = A^T dO + k~ dS_{J+1}
//   R = dO S_J^T (seen from the block's start)          K = V dS_{J+1}^T (from its end)
// and then down the levels 8, 4, 2, and 1, the decay of one token:
//   rows of second halves: R <- (decay of the first half) R + dA tree
//   rows of first halves:  K <- (decay of the second half) K + dA^T tree
//   dr = R + dA_{i,i-1} k_{i-1} + dA_ii u k_i          dk = K + dA_{j+1,j} r_{j+1} + dA_jj u r_j
//   du = sum dA_ii r_i k_i
//   dw_t = q <S_J, dS_{J+1}> + sum_j k~_j K'_j + sum_{i>t} (r_i R_i - k_i K_i) - k_t K_t
// K': before the levels. R and K of dw have no neighbours in them, whose product knows no decay:
// what is left is as small as dw itself.
#pragma once

#include "kernels/scan/rwkv6_forward.cuh"

namespace assay::scan {

constexpr int kRwkvGradientsBytes = 12 * kTile * 2 + 3 * 4 * kWidth * 4;

__global__ void __launch_bounds__(kRwkvThreads, 2) rwkv6_gradients(Rwkv6Gradients back) {
  const Rwkv6& p = back.problem;
  bf16* sr = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sk = sr + kTile, *sv = sk + kTile, *so = sv + kTile, *sw = so + kTile, *srt = sw + kTile,
       *skt = srt + kTile, *ss = skt + kTile, *sd = ss + 4 * kTile;
  float *q = reinterpret_cast<float*>(sd + kTile), *base = q + 4 * kWidth, *du = base + 4 * kWidth;
  const Lane at;
  const int n = block_index() / p.at.heads, head = block_index() % p.at.heads;
  const int2 chunk = p.at.chunk[n];
  const std::int64_t from = (wide(chunk.x) * p.at.heads + head) * kWidth,
                     stride = wide(p.at.heads) * kWidth;
  const auto load = [&](bf16* to, const bf16* x) {
    load_rows<kChunk, kWidth, kRwkvThreads>(to, kStride, x + from, stride, chunk.y);
  };
  const auto load_state = [&](bf16* to, const bf16* x) {
    load_rows<kWidth, kWidth, kRwkvThreads>(
        to, kStride, x + wide(blockIdx.x) * kWidth * kWidth, kWidth, kWidth);
  };
  load(sr, p.r), load(sk, p.k), load(sw, p.w);
  copies_commit();
  load(sv, p.v), load(so, back.d_out), load_state(ss, p.states);
  copies_commit();
  load_state(sd, back.d_states);
  copies_commit();
  copies_wait<2>();
  __syncthreads();

  const int block = kBlock * kStride * at.warp, lane = block + 2 * at.lane; // warp I has block I
  {
    float2 e[kBlock];
    decays_of(e, sw + lane, kStride);
    block_rows<true>(e, sr + lane, srt + lane);
    *reinterpret_cast<float2*>(q + at.warp * kWidth + 2 * at.lane) =
        block_rows<false>(e, sk + lane, skt + lane);
  }
  copies_wait<0>();
  __syncthreads();
  // States entering the blocks: a warp has 16 channels.
  const int band = 16 * at.warp;
  float s[8][4];
  take_rows(s, ss + band * kStride, kStride, at.lane);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const int rows = j * kBlock * kStride;
    advance_state(s, q + j * kWidth + band, skt + rows + band, sv + rows, at);
    give_rows(ss + (j + 1) * kTile + band * kStride, kStride, s, at);
  }
  __syncthreads();
  float dr[8][4] = {};
  bf16* state = ss + at.warp * kTile;
  add_product<true>(dr, so + block, state, at);
  __syncthreads();
  // Gradients of the states that leave the blocks, in their places; q <S_J, dS_{J+1}>.
  take_rows(s, sd + band * kStride, kStride, at.lane);
#pragma unroll
  for (int j = 4; j-- > 0;) {
    bf16* place = ss + j * kTile + band * kStride;
    float upper = 0, lower = 0;
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      float before[2][4];
      take_rows(before, place + 8 * i, kStride, at.lane);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        upper += s[i + e][0] * before[e][0] + s[i + e][1] * before[e][1];
        lower += s[i + e][2] * before[e][2] + s[i + e][3] * before[e][3];
      }
    }
#pragma unroll
    for (int d = 1; d < 4; d *= 2) {
      upper += __shfl_xor_sync(0xffffffffU, upper, d);
      lower += __shfl_xor_sync(0xffffffffU, lower, d);
    }
    const int channel = j * kWidth + band + at.r;
    if (at.c == 0) base[channel] = q[channel] * upper, base[channel + 8] = q[channel + 8] * lower;
    __syncwarp();
    give_rows(place, kStride, s, at);
    const int rows = j * kBlock * kStride;
    if (j > 0) advance_state(s, q + j * kWidth + band, srt + rows + band, so + rows, at);
  }
  __syncthreads();

  // From here on a warp works on its own block alone.
  float dk[8][4] = {}, dv[8][4] = {};
  add_product<true>(dk, sv + block, state, at);
  add_product<false>(dv, skt + block, state, at);
  float* whole = base + at.warp * kWidth;
  {
    float x[16];
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      float rows[2][4];
      take_rows(rows, skt + block + 8 * j, kStride, at.lane);
#pragma unroll
      for (int i = j; i < j + 2; ++i)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          x[2 * i + e] = rows[i - j][e] * dk[i][e] + rows[i - j][2 + e] * dk[i][2 + e];
    }
    sum_columns(x, at);
    float2* to = reinterpret_cast<float2*>(whole) + 4 * at.r + at.c;
    *to = make_float2(to->x + x[0], to->y + x[1]);
  }
  __syncwarp();
  // The tree and the decays of its halves, in the place of the state; halves[l]: 16 / m rows.
  bf16* const tree[3] = {state, state + kBlock * kStride, state + 2 * kBlock * kStride};
  float* const halves[3] = {reinterpret_cast<float*>(state + 3 * kBlock * kStride),
                            reinterpret_cast<float*>(state + 3 * kBlock * kStride) + 2 * kStride,
                            reinterpret_cast<float*>(srt + block)};
  {
    float2 e[kBlock];
    decays_of(e, sw + lane, kStride);
    bf16* const places[3] = {tree[0] + 2 * at.lane, tree[1] + 2 * at.lane, tree[2] + 2 * at.lane};
    tree_rows<true>(e, sr + lane, places);
    tree_rows<false>(e, sk + lane, places);
#pragma unroll
    for (int l = 0; l < 3; ++l) // halves of 2, 4, 8 tokens, from those of half their size
#pragma unroll
      for (int i = 0; i < kBlock; ++i)
        if (i % (2 << l) == 0) {
          e[i] = times(e[i], e[i + (1 << l)]);
          *reinterpret_cast<float2*>(halves[2 - l] + (i >> (l + 1)) * kStride + 2 * at.lane) = e[i];
        }
  }
  float da[2][4] = {}, da_t[2][4] = {}; // dA and its transpose
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    std::uint32_t go[4], v[4];
    load_a(go, so + block, kStride, 0, k, at.lane);
    load_a(v, sv + block, kStride, 0, k, at.lane);
    mma(da[0], go, v[0], v[2]);
    mma(da[1], go, v[1], v[3]);
    mma(da_t[0], v, go[0], go[2]);
    mma(da_t[1], v, go[1], go[3]);
  }
  __syncwarp();
  const int exist = chunk.y - kBlock * at.warp;
  const std::int64_t rows = from + kBlock * at.warp * stride;
  {
    float a[2][4];
    near_scores<true>(a, sr + block, sk + block, p.u + head * kWidth, at);
    tree_scores<true>(a, tree, at);
    std::uint32_t weights[4];
    as_left(weights, a[0], a[1]);
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      std::uint32_t right[4];
      load_b(right, so + block, kStride, 0, 8 * j, at.lane);
      mma(dv[j], weights, right[0], right[1]);
      mma(dv[j + 1], weights, right[2], right[3]);
    }
    store_rows(back.dv + rows, stride, skt + block, kStride, dv, exist, at); // k~ is read
  }
  // dA where `keep` says so, as left operands.
  const auto masked = [&](std::uint32_t(&to_r)[4], std::uint32_t(&to_k)[4], auto keep) {
    float x[2][4], y[2][4];
#pragma unroll
    for (int nt = 0; nt < 2; ++nt)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = at.r + 8 * (e / 2), j = 8 * nt + 2 * at.c + (e & 1);
        x[nt][e] = keep(i, j) ? da[nt][e] : 0.f;
        y[nt][e] = keep(j, i) ? da_t[nt][e] : 0.f;
      }
    as_left(to_r, x[0], x[1]);
    as_left(to_k, y[0], y[1]);
  };
  // Rows of second halves: R times f; rows of first halves: K times f.
  const auto move = [&](int j, bool odd0, bool odd1, float2 f0, float2 f1) {
    if (odd0)
      dr[j][0] *= f0.x, dr[j][1] *= f0.y;
    else
      dk[j][0] *= f0.x, dk[j][1] *= f0.y;
    if (odd1)
      dr[j][2] *= f1.x, dr[j][3] *= f1.y;
    else
      dk[j][2] *= f1.x, dk[j][3] *= f1.y;
  };
  std::uint32_t to_r[4], to_k[4];
#pragma unroll
  for (int l = 0; l < 3; ++l) {
    const int m = 8 >> l;
    masked(to_r, to_k, [&](int i, int j) { return at_level(i, j, l); });
    const float* f0 =
        halves[l] + (at.r ^ m) / m * kStride + 2 * at.c; // the other half of this lane's rows
    const float* f1 = halves[l] + ((at.r + 8) ^ m) / m * kStride + 2 * at.c;
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
#pragma unroll
      for (int i = j; i < j + 2; ++i)
        move(i,
             at.r & m,
             (at.r + 8) & m,
             *reinterpret_cast<const float2*>(f0 + 8 * i),
             *reinterpret_cast<const float2*>(f1 + 8 * i));
      std::uint32_t right[4];
      load_b(right, tree[l], kStride, 0, 8 * j, at.lane);
      mma(dr[j], to_r, right[0], right[1]);
      mma(dr[j + 1], to_r, right[2], right[3]);
      mma(dk[j], to_k, right[0], right[1]);
      mma(dk[j + 1], to_k, right[2], right[3]);
    }
  }
  masked(to_r, to_k, [](int i, int j) { return i == j + 1; }); // neighbours
  // dA_ii of this lane's rows lies in lane r / 2 of the quad.
  const float own0 = __shfl_sync(0xffffffffU, at.r & 1 ? da[0][1] : da[0][0], 4 * at.r + at.r / 2);
  const float own1 = __shfl_sync(0xffffffffU, at.r & 1 ? da[1][3] : da[1][2], 4 * at.r + at.r / 2);
  __syncwarp();
  float du_own[16];
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    std::uint32_t of_k[4], of_r[4], r_rows[4], k_rows[4], w_rows[4];
    const int here = block + 8 * j;
    load_b(of_k, sk + here, kStride, 0, 0, at.lane);
    load_b(of_r, sr + here, kStride, 0, 0, at.lane);
    load_a(r_rows, sr + here, kStride, 0, 0, at.lane);
    load_a(k_rows, sk + here, kStride, 0, 0, at.lane);
    ldmatrix(w_rows,
             sw + here + (at.lane % 16 ^ 1) * kStride + at.lane / 16 * 8); // the neighbours' decay
#pragma unroll
    for (int i = j; i < j + 2; ++i) {
      const float2 x0 = unpack2(w_rows[2 * (i - j)]), x1 = unpack2(w_rows[2 * (i - j) + 1]);
      move(i,
           at.r & 1,
           at.r & 1,
           make_float2(exp2_fast(kLog2E * x0.x), exp2_fast(kLog2E * x0.y)),
           make_float2(exp2_fast(kLog2E * x1.x), exp2_fast(kLog2E * x1.y)));
      const float2 r0 = unpack2(r_rows[2 * (i - j)]), r1 = unpack2(r_rows[2 * (i - j) + 1]);
      const float2 k0 = unpack2(k_rows[2 * (i - j)]), k1 = unpack2(k_rows[2 * (i - j) + 1]);
      const float of_key[4] = {k0.x * dk[i][0], k0.y * dk[i][1], k1.x * dk[i][2], k1.y * dk[i][3]};
      const float x[4] = {r0.x * dr[i][0] - of_key[0],
                          r0.y * dr[i][1] - of_key[1],
                          r1.x * dr[i][2] - of_key[2],
                          r1.y * dr[i][3] - of_key[3]};
      float sum[4] = {x[0], x[1], x[2], x[3]}; // of the rows from this one on, of eight
#pragma unroll
      for (int d = 1; d < 8; d *= 2)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float after = __shfl_sync(0xffffffffU, sum[e], at.lane + 4 * d);
          if (at.r + d < 8) sum[e] += after;
        }
      const float2 first = *reinterpret_cast<const float2*>(whole + 8 * i + 2 * at.c);
      const float last0 = __shfl_sync(0xffffffffU, sum[2], at.c),
                  last1 = __shfl_sync(0xffffffffU, sum[3], at.c);
      bf16* dw = sv + block + at.r * kStride + 8 * i + 2 * at.c; // v is read
      put(dw,
          first.x + (last0 + (sum[0] - x[0])) - of_key[0],
          first.y + (last1 + (sum[1] - x[1])) - of_key[1]);
      put(dw + 8 * kStride,
          first.x + (sum[2] - x[2]) - of_key[2],
          first.y + (sum[3] - x[3]) - of_key[3]);

      const float2 u = *reinterpret_cast<const float2*>(p.u + head * kWidth + 8 * i + 2 * at.c);
      const float2 u0 = make_float2(own0 * u.x, own0 * u.y),
                   u1 = make_float2(own1 * u.x, own1 * u.y);
      dr[i][0] += u0.x * k0.x, dr[i][1] += u0.y * k0.y, dr[i][2] += u1.x * k1.x,
          dr[i][3] += u1.y * k1.y;
      dk[i][0] += u0.x * r0.x, dk[i][1] += u0.y * r0.y, dk[i][2] += u1.x * r1.x,
          dk[i][3] += u1.y * r1.y;
      mma(dr[i], to_r, of_k[2 * (i - j)], of_k[2 * (i - j) + 1]);
      mma(dk[i], to_k, of_r[2 * (i - j)], of_r[2 * (i - j) + 1]);
      du_own[2 * i] = own0 * r0.x * k0.x + own1 * r1.x * k1.x;
      du_own[2 * i + 1] = own0 * r0.y * k0.y + own1 * r1.y * k1.y;
    }
  }
  copy_rows<8>(back.dw + rows, stride, sv + block, kStride, exist, at);
  store_rows(back.dr + rows, stride, sr + block, kStride, dr, exist, at);
  store_rows(back.dk + rows, stride, sk + block, kStride, dk, exist, at);
  sum_columns(du_own, at);
  *reinterpret_cast<float2*>(du + at.warp * kWidth + 8 * at.r + 2 * at.c) =
      make_float2(du_own[0], du_own[1]);
  __syncthreads();
  if (thread_index() < kWidth)
    back.du_parts[wide(blockIdx.x) * kWidth + thread_index()] =
        (du[thread_index()] + du[kWidth + thread_index()]) +
        (du[2 * kWidth + thread_index()] + du[3 * kWidth + thread_index()]);
}

// du: sums of the chunks' parts, a head a block, in a fixed order.
constexpr int kDuThreads = 1024;

__global__ void __launch_bounds__(kDuThreads) rwkv6_du(Rwkv6Gradients back) {
  const ChunkTable& at = back.problem.at;
  constexpr int kSlices = kDuThreads / kWidth;
  float* sums = reinterpret_cast<float*>(shared_memory());
  const int head = block_index(), thread = thread_index(), slice = thread / kWidth,
            channel = thread % kWidth;
  float sum = 0;
#pragma unroll 8
  for (int n = slice; n < at.chunks; n += kSlices)
    sum += back.du_parts[(wide(n) * at.heads + head) * kWidth + channel];
  sums[thread] = sum;
  __syncthreads();
  if (slice > 0) return;
  for (int i = 1; i < kSlices; ++i) sum += sums[i * kWidth + channel];
  back.du[head * kWidth + channel] = sum;
}

} // namespace assay::scan
