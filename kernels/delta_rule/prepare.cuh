// A chunk and head per block: gamma, beta and the inverse T = (I + A)^-1 of the chunk.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

constexpr int kASide = 72; // fp32 row stride of A and T
// K and then A lie in one place: A in fp32 is the wider of the two. T behind it.
constexpr int prepare_bytes() {
  return kChunk * (kASide * 4 + (kChunk + kPad) * 2 + 8);
}

// Inverse of I + A: 16 x 16 blocks on the diagonal by substitution, the others by tf32 products.
// `a` holds A (rows i, columns j < i) and gets the inverses of its diagonal blocks, transposed; `t`
// gets the whole inverse, transposed, in bf16. Every warp w owns rows 16 w … of A on entry.
__device__ __forceinline__ void invert(float* a, bf16* t, int t_stride, const Lane& at) {
  const int base = 16 * at.warp;
  float x[16]; // column lane % 16 of the diagonal block's inverse
  const int column = at.lane % 16;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float sum = i == column ? 1.f : 0.f;
    const float* row = a + (base + i) * kASide + base;
#pragma unroll
    for (int m = 0; m < (i + 3) / 4; ++m) {
      const float4 four = *reinterpret_cast<const float4*>(row + 4 * m);
      if (4 * m < i) sum -= four.x * x[4 * m];
      if (4 * m + 1 < i) sum -= four.y * x[4 * m + 1];
      if (4 * m + 2 < i) sum -= four.z * x[4 * m + 2];
      if (4 * m + 3 < i) sum -= four.w * x[4 * m + 3];
    }
    x[i] = sum;
  }
  __syncwarp();
  if (at.lane < 16) {
    float4* row = reinterpret_cast<float4*>(a + (base + column) * kASide + base);
    uint4* half = reinterpret_cast<uint4*>(t + (base + column) * t_stride + base);
#pragma unroll
    for (int i = 0; i < 4; ++i) row[i] = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
#pragma unroll
    for (int i = 0; i < 2; ++i)
      half[i] = make_uint4(pack2(x[8 * i], x[8 * i + 1]),
                           pack2(x[8 * i + 2], x[8 * i + 3]),
                           pack2(x[8 * i + 4], x[8 * i + 5]),
                           pack2(x[8 * i + 6], x[8 * i + 7]));
  }
  __syncthreads();
  // Warp J makes the blocks below its diagonal block, transposed: U_I = T_IJ^T, U_J from above,
  // U_I = -(sum_{J <= M < I} U_M A_IM^T) T_II^T. The order of a product's sum is free, so that a
  // result's columns 2c, 2c+1 serve as the next product's columns c, c+4.
  std::uint32_t u[4][2][4];
#pragma unroll
  for (int ks = 0; ks < 2; ++ks) {
    const float* row = a + (base + at.r) * kASide + base + 8 * ks + 2 * at.c;
    u[0][ks][0] = to_tf32(row[0]), u[0][ks][1] = to_tf32(row[8 * kASide]);
    u[0][ks][2] = to_tf32(row[1]), u[0][ks][3] = to_tf32(row[8 * kASide + 1]);
  }
#pragma unroll
  for (int d = 1; d < 4; ++d) { // I = J + d
    const int block = at.warp + d;
    if (block < 4) {
      float sum[2][4] = {};
#pragma unroll
      for (int m = 0; m < d; ++m)
#pragma unroll
        for (int ks = 0; ks < 2; ++ks)
#pragma unroll
          for (int nt = 0; nt < 2; ++nt) {
            const float2 two = *reinterpret_cast<const float2*>(
                a + (16 * block + 8 * nt + at.r) * kASide + 16 * (at.warp + m) + 8 * ks + 2 * at.c);
            mma_tf32(sum[nt], u[m][ks], to_tf32(two.x), to_tf32(two.y));
          }
      float result[2][4] = {};
#pragma unroll
      for (int ks = 0; ks < 2; ++ks) {
        const std::uint32_t left[4] = {
            to_tf32(-sum[ks][0]), to_tf32(-sum[ks][2]), to_tf32(-sum[ks][1]), to_tf32(-sum[ks][3])};
#pragma unroll
        for (int nt = 0; nt < 2; ++nt) {
          const float* right =
              a + (16 * block + 8 * ks + 2 * at.c) * kASide + 16 * block + 8 * nt + at.r;
          mma_tf32(result[nt], left, to_tf32(right[0]), to_tf32(right[kASide]));
        }
      }
#pragma unroll
      for (int nt = 0; nt < 2; ++nt) {
        if (d < 3) {
          u[d][nt][0] = to_tf32(result[nt][0]), u[d][nt][1] = to_tf32(result[nt][2]);
          u[d][nt][2] = to_tf32(result[nt][1]), u[d][nt][3] = to_tf32(result[nt][3]);
        }
        bf16* to = t + (base + at.r) * t_stride + 16 * block + 8 * nt + 2 * at.c;
        *reinterpret_cast<std::uint32_t*>(to) = pack2(result[nt][0], result[nt][1]);
        *reinterpret_cast<std::uint32_t*>(to + 8 * t_stride) = pack2(result[nt][2], result[nt][3]);
      }
    }
  }
}

template <int D> __global__ void __launch_bounds__(kThreads) prepare(Problem p) {
  constexpr int kStride = D + kPad, kTStride = kChunk + kPad;
  static_assert(kStride * 2 <= kASide * 4);
  bf16* sk = reinterpret_cast<bf16*>(shared_memory());
  float* sa = reinterpret_cast<float*>(sk); // takes K's place
  bf16* st = reinterpret_cast<bf16*>(sa + kChunk * kASide);
  float2* sd = reinterpret_cast<float2*>(st + kChunk * kTStride);
  const Lane at;
  const int n = block_index() / p.heads, head = block_index() % p.heads;
  const int2 chunk = p.chunk[n];
  if (chunk.y == 0) return; // room of a table that the batch leaves empty
  const int key_head = head / (p.heads / p.heads_k);
  load_rows<kChunk, D>(sk,
                       kStride,
                       p.k + (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D,
                       static_cast<std::int64_t>(p.heads_k) * D,
                       chunk.y);
  copies_commit();
  if (at.warp == 0) {
    float g[2], beta[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = 2 * at.lane + i;
      const bool exists = row < chunk.y;
      const std::int64_t token = std::int64_t(chunk.x + (exists ? row : 0)) * p.heads + head;
      g[i] = exists ? p.g[token] * kLog2E : 0.f;
      beta[i] = exists ? p.beta[token] : 0.f;
    }
    float sum = g[0] + g[1];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const float before = __shfl_up_sync(0xffffffffu, sum, d);
      if (at.lane >= d) sum += before;
    }
    // From the tokens before, never `sum - g[1]`: that would round by a later token's decay.
    const float earlier = __shfl_up_sync(0xffffffffu, sum, 1);
    const float even = (at.lane > 0 ? earlier : 0.f) + g[0];
    sd[2 * at.lane] = make_float2(even, beta[0]);
    sd[2 * at.lane + 1] = make_float2(even + g[1], beta[1]);
  }
  copies_wait<0>();
  __syncthreads();

  const int row = 16 * at.warp + at.r;
  const float2 upper = sd[row], lower = sd[row + 8];
  float kk[8][4] = {};
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    std::uint32_t a[4];
    load_a(a, sk, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (j <= at.warp) {
        std::uint32_t b[4];
        load_b_t(b, sk, kStride, k, 16 * j, at.lane);
        mma(kk[2 * j], a, b[0], b[1]);
        mma(kk[2 * j + 1], a, b[2], b[3]);
      }
  }
  __syncthreads(); // K is read: its place is free
#pragma unroll
  for (int nt = 0; nt < 8; ++nt)
    if (nt / 2 <= at.warp) {
      const int column = 8 * nt + 2 * at.c;
      const float g0 = sd[column].x, g1 = sd[column + 1].x;
      const auto element = [](float value, float2 i, float gj, bool below) {
        return below ? value * i.y * exp2_fast(i.x - gj) : 0.f;
      };
      float2* to = reinterpret_cast<float2*>(sa + row * kASide + column);
      to[0] = make_float2(element(kk[nt][0], upper, g0, column < row),
                          element(kk[nt][1], upper, g1, column + 1 < row));
      to[4 * kASide] = make_float2(element(kk[nt][2], lower, g0, column < row + 8),
                                   element(kk[nt][3], lower, g1, column + 1 < row + 8));
    }
  __syncwarp(); // a warp's rows of A are there
  invert(sa, st, kTStride, at);
  let_kernel_after_start(); // which loads K and V meanwhile
  __syncthreads();
  const std::int64_t place = static_cast<std::int64_t>(blockIdx.x) * kChunk;
  for (int i = thread_index(); i < kChunk * 8; i += kThreads)
    if (i % 8 / 2 >= i / 8 / 16) // no block left of the diagonal is read
      *reinterpret_cast<uint4*>(p.inverse + place * kChunk + i * 8) =
          *reinterpret_cast<const uint4*>(st + i / 8 * kTStride + i % 8 * 8);
  if (thread_index() < kChunk) p.decay[place + thread_index()] = sd[thread_index()];
}

} // namespace assay::delta_rule
