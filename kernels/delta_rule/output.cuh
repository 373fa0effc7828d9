// A chunk and head per block: P = scale (Q K^T * L), O = scale 2^gamma Q S + P V'. The last chunk
// comes first: its state was written last and may still be in the L2 cache. The first blocks start
// before the states are complete: they form P, and wait then.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

// V' of width 128 takes the place of K, so that three blocks share an SM.
template <int D> constexpr bool kUpdateOverKey = D == 128;
template <int D> constexpr int output_bytes() {
  return ((kUpdateOverKey<D> ? 2 : 3) * kChunk + D) * (D + kPad) * 2 + kChunk * 8;
}

template <int D>
__global__ void __launch_bounds__(kThreads, kUpdateOverKey<D> ? 3 : 1)
    output(Problem p, int early_blocks) {
  constexpr int kStride = D + kPad;
  bf16* sq = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sk = sq + kChunk * kStride, *su = kUpdateOverKey<D> ? sk : sk + kChunk * kStride,
       *ss = su + kChunk * kStride;
  float2* sd = reinterpret_cast<float2*>(ss + D * kStride);
  const Lane at;
  const int n = p.chunks - 1 - block_index() / p.heads, head = block_index() % p.heads;
  const int2 chunk = p.chunk[n];
  if (chunk.y == 0) return; // room of a table that the batch leaves empty
  const int key_head = head / (p.heads / p.heads_k);
  const std::int64_t place = static_cast<std::int64_t>(n) * p.heads + head,
                     keys = (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D,
                     values = (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D;
  load_rows<kChunk, D>(sq, kStride, p.q + keys, static_cast<std::int64_t>(p.heads_k) * D, chunk.y);
  load_rows<kChunk, D>(sk, kStride, p.k + keys, static_cast<std::int64_t>(p.heads_k) * D, chunk.y);
  if (thread_index() < 32)
    copy16(sd + 2 * thread_index(), p.decay + place * kChunk + 2 * thread_index(), true);
  copies_commit();
  const auto load_update = [&] {
    load_rows<kChunk, D>(
        su, kStride, p.update + values, static_cast<std::int64_t>(p.heads) * D, chunk.y);
  };
  const auto load_results = [&] {
    wait_for_kernel_before();
    if (!kUpdateOverKey<D>) load_update();
    load_rows<D, D>(ss, kStride, p.states + place * D * D, D, D);
    copies_commit();
  };
  const bool early = block_index() < early_blocks;
  if (early) {
    copies_wait<0>();
  } else {
    load_results();
    copies_wait<1>();
  }
  __syncthreads();

  const int row = 16 * at.warp + at.r;
  const float g0 = sd[row].x, g1 = sd[row + 8].x;
  float scores[8][4] = {};
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    std::uint32_t a[4];
    load_a(a, sq, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (j <= at.warp) {
        std::uint32_t b[4];
        load_b_t(b, sk, kStride, k, 16 * j, at.lane);
        mma(scores[2 * j], a, b[0], b[1]);
        mma(scores[2 * j + 1], a, b[2], b[3]);
      }
  }
  std::uint32_t weights[4][4];
#pragma unroll
  for (int nt = 0; nt < 8; ++nt)
    if (nt / 2 <= at.warp) {
      const int column = 8 * nt + 2 * at.c;
      const float h0 = sd[column].x, h1 = sd[column + 1].x;
      const auto element = [scale = p.scale](float value, float gi, float gj, bool seen) {
        return seen ? scale * value * exp2_fast(gi - gj) : 0.f;
      };
      weights[nt / 2][nt % 2 * 2] = pack2(element(scores[nt][0], g0, h0, column <= row),
                                          element(scores[nt][1], g0, h1, column + 1 <= row));
      weights[nt / 2][nt % 2 * 2 + 1] =
          pack2(element(scores[nt][2], g1, h0, column <= row + 8),
                element(scores[nt][3], g1, h1, column + 1 <= row + 8));
    }
  if (early) load_results();
  if (kUpdateOverKey<D>) {
    __syncthreads(); // K is read
    load_update();
    copies_commit();
  }
  bf16* pairs = p.scores + (place * kChunk + row) * kChunk;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (k <= at.warp)
#pragma unroll
      for (int i = 0; i < 2; ++i) { // neighbours exchange, for whole sectors
        const std::uint32_t left = weights[k][i], right = weights[k][2 + i];
        const bool odd = at.c % 2 == 1;
        const std::uint32_t other = __shfl_xor_sync(0xffffffffu, odd ? left : right, 1);
        *reinterpret_cast<uint2*>(pairs + 8 * i * kChunk + 16 * k + (odd ? 6 : 0) + 2 * at.c) =
            odd ? make_uint2(other, right) : make_uint2(left, other);
      }
  copies_wait<kUpdateOverKey<D> ? 1 : 0>(); // the state is there
  __syncthreads();
  float o[D / 8][4] = {};
#pragma unroll
  for (int k = 0; k < D; k += 16) {
    std::uint32_t a[4];
    load_a(a, sq, kStride, 16 * at.warp, k, at.lane);
#pragma unroll
    for (int j = 0; j < D / 8; j += 2) {
      std::uint32_t b[4];
      load_b_t(b, ss, kStride, k, 8 * j, at.lane);
      mma(o[j], a, b[0], b[1]);
      mma(o[j + 1], a, b[2], b[3]);
    }
  }
  const float e0 = p.scale * exp2_fast(g0), e1 = p.scale * exp2_fast(g1);
#pragma unroll
  for (int j = 0; j < D / 8; ++j) o[j][0] *= e0, o[j][1] *= e0, o[j][2] *= e1, o[j][3] *= e1;
  if (kUpdateOverKey<D>) {
    copies_wait<0>();
    __syncthreads();
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (k <= at.warp) {
#pragma unroll
      for (int j = 0; j < D / 8; j += 2) {
        std::uint32_t b[4];
        load_b(b, su, kStride, 16 * k, 8 * j, at.lane);
        mma(o[j], weights[k], b[0], b[1]);
        mma(o[j + 1], weights[k], b[2], b[3]);
      }
    }
  // Through this warp's own rows of Q, for stores of 16 bytes.
  __syncwarp();
#pragma unroll
  for (int j = 0; j < D / 8; ++j) {
    bf16* to = sq + row * kStride + 8 * j + 2 * at.c;
    *reinterpret_cast<std::uint32_t*>(to) = pack2(o[j][0], o[j][1]);
    *reinterpret_cast<std::uint32_t*>(to + 8 * kStride) = pack2(o[j][2], o[j][3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 16 * D / 8 / 32; ++i) {
    const int word = at.lane + 32 * i, y = 16 * at.warp + word / (D / 8), x = word % (D / 8) * 8;
    if (y < chunk.y)
      *reinterpret_cast<uint4*>(p.out + values + static_cast<std::int64_t>(y) * p.heads * D + x) =
          *reinterpret_cast<const uint4*>(sq + y * kStride + x);
  }
}

} // namespace assay::delta_rule
