// Rotary positions and the layout of heads: a warp handles a token, eight columns (16 bytes) to a
// lane and access.
#pragma once

#include "kernels/attention/latent.h"
#include "kernels/vectors.cuh"

namespace assay::latent {

using namespace simt;

constexpr int kHeadThreads = 256, kHeadWarps = kHeadThreads / 32;

// The rotary columns of a token's heads, in place. `row`: the token's [heads, plain + rope].
__device__ __forceinline__ void rotate_heads(bf16* row,
                                             const float* cos,
                                             const float* sin,
                                             int heads,
                                             int plain,
                                             int rope,
                                             int lane,
                                             float sign) {
  const int words = rope / 8;
  for (int word = lane; word < heads * words; word += 32) {
    const int head = word / words, first = word % words * 8;
    bf16* at = row + head * (plain + rope) + plain + first;
    float x[8];
    load(x, at);
    rotate(x, cos, sin, first / 2, sign);
    store(at, x);
  }
}

__global__ void __launch_bounds__(kHeadThreads) latent_heads(Heads p) {
  const int lane = thread_index() % 32;
  const std::int64_t token =
      static_cast<std::int64_t>(block_index()) * kHeadWarps + thread_index() / 32;
  if (token >= p.tokens) return;
  const int width = p.plain + p.rope, words = width / 8;
  const float *cos = p.cos + token * (p.rope / 2), *sin = p.sin + token * (p.rope / 2);
  const bf16 *up = p.up + token * p.heads * 2 * p.plain, *key = p.key + token * p.key_stride;
  bf16* k = p.k + token * p.heads * width;
  for (int word = lane; word < p.heads * words; word += 32) {
    const int head = word / words, column = word % words * 8;
    if (column < p.plain) {
      copy8(k + 8 * word, up + head * 2 * p.plain + column);
    } else {
      float x[8];
      load(x, key + column - p.plain);
      rotate(x, cos, sin, (column - p.plain) / 2, 1.F);
      store(k + 8 * word, x);
    }
  }
  rotate_heads(p.q + token * p.heads * width, cos, sin, p.heads, p.plain, p.rope, lane, 1.F);
}

// The gradient of a token's rotary key: a lane adds up eight columns of some heads, then lanes of
// the same columns meet. `dk`: the token's [heads, plain + rope].
__device__ __forceinline__ void
sum_rotary(const HeadsBackward& p, const bf16* dk, std::int64_t token, int lane) {
  const int words = p.rope / 8, column = lane % words * 8, width = p.plain + p.rope;
  float sum[8] = {};
  for (int head = lane / words; head < p.heads; head += 32 / words) {
    float x[8];
    load(x, dk + head * width + p.plain + column);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += x[e];
  }
  for (int d = words; d < 32; d *= 2)
#pragma unroll
    for (int e = 0; e < 8; ++e) sum[e] += __shfl_xor_sync(0xffffffffU, sum[e], d);
  if (lane >= words) return;
  const std::int64_t angles = token * (p.rope / 2);
  rotate(sum, p.cos + angles, p.sin + angles, column / 2, -1.F);
  store(p.d_key + token * p.rope + column, sum);
}

__global__ void __launch_bounds__(kHeadThreads) latent_heads_backward(HeadsBackward p) {
  const int lane = thread_index() % 32;
  const std::int64_t token =
      static_cast<std::int64_t>(block_index()) * kHeadWarps + thread_index() / 32;
  if (token >= p.tokens) return;
  const int width = p.plain + p.rope, words = 2 * p.plain / 8;
  const std::int64_t angles = token * (p.rope / 2);
  const bf16 *dk = p.dk + token * p.heads * width, *dv = p.dv + token * p.dv_token;
  bf16* d_up = p.d_up + token * p.heads * 2 * p.plain;
  for (int word = lane; word < p.heads * words; word += 32) {
    const int head = word / words, column = word % words * 8;
    copy8(d_up + 8 * word,
          column < p.plain ? dk + head * width + column : dv + head * p.dv_head + column - p.plain);
  }
  sum_rotary(p, dk, token, lane);
  rotate_heads(p.dq + token * p.heads * width,
               p.cos + angles,
               p.sin + angles,
               p.heads,
               p.plain,
               p.rope,
               lane,
               -1.F);
}

} // namespace assay::latent
