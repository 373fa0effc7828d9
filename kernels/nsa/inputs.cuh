// What the branches of native sparse attention take, from one product. A warp handles a token:
// eight columns (16 bytes) a lane, so four rows of 64 columns at a time.
#pragma once

#include "kernels/nsa/inputs_problem.h"
#include "kernels/nsa/places.cuh"
#include "kernels/vectors.cuh"

namespace assay::nsa {

using namespace simt;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kRowsAtOnce = 4;

// A lane's columns and which of four rows.
struct Lane {
  int row, column;
  __device__ __forceinline__ Lane()
      : row(thread_index() % 32 / 8), column(thread_index() % 8 * 8) {}
};

__device__ __forceinline__ std::int64_t token_of_warp() {
  return static_cast<std::int64_t>(block_index()) * kWarps + thread_index() / 32;
}

__device__ __forceinline__ void add(float (&sum)[8], const float (&x)[8], float factor = 1.F) {
#pragma unroll
  for (int e = 0; e < 8; ++e) sum[e] += factor * x[e];
}

__device__ __forceinline__ void add_from(float (&sum)[8], const bf16* from, float factor = 1.F) {
  float x[8];
  load(x, from);
  add(sum, x, factor);
}

// The queries of a token, rotated, and the mean of each group.
__device__ __forceinline__ void write_queries(const Inputs& p, std::int64_t t, const Lane& lane) {
  const bf16* row = p.product + t * (p.heads + 6 * p.groups) * kWidth;
  const float *cos = p.cos + t * (kWidth / 2), *sin = p.sin + t * (kWidth / 2);
  const int own = p.heads / p.groups;
  const std::int64_t place = p.place[t];
  for (int group = 0; group < p.groups; ++group) {
    float sum[8] = {};
    for (int i = lane.row; i < own; i += kRowsAtOnce) {
      const int head = group * own + i;
      float x[8];
      load(x, row + head * kWidth + lane.column);
      rotate(x, cos, sin, lane.column / 2, 1.F);
      add(sum, x);
      store(p.q + (t * p.heads + head) * kWidth + lane.column, x);
      if (place >= 0)
        store(p.q_places + nsa_places::at_place(place, head, p.heads, p.stride, kWidth) +
                  lane.column,
              x);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      sum[e] += __shfl_xor_sync(0xffffffffU, sum[e], 8);
      sum[e] += __shfl_xor_sync(0xffffffffU, sum[e], 16);
      sum[e] /= static_cast<float>(own);
    }
    if (lane.row > 0) continue;
    float* mean = p.mean + (t * p.groups + group) * kWidth + lane.column;
#pragma unroll
    for (int e = 0; e < 8; e += 4) {
      const float four[4] = {sum[e], sum[e + 1], sum[e + 2], sum[e + 3]};
      store(mean + e, four);
    }
  }
}

__global__ void __launch_bounds__(kThreads) inputs_kernel(Inputs p) {
  const Lane lane;
  const std::int64_t t = token_of_warp();
  if (t >= p.tokens) return; // whole warps leave
  write_queries(p, t, lane);
  const bf16* row = p.product + (t * (p.heads + 6 * p.groups) + p.heads) * kWidth;
  const float *cos = p.cos + t * (kWidth / 2), *sin = p.sin + t * (kWidth / 2);
  for (int i = lane.row; i < 4 * p.groups; i += kRowsAtOnce) {
    const int kind = i / p.groups, group = i % p.groups; // k_sel, k_win, v_sel, v_win
    const int from = (kind < 2 ? 1 + kind : 2 + kind) * p.groups + group;
    float x[8];
    load(x, row + from * kWidth + lane.column);
    if (kind < 2) rotate(x, cos, sin, lane.column / 2, 1.F);
    store(p.branch[kind] + (t * p.groups + group) * kWidth + lane.column, x);
  }
}

// A thread block makes one compressed block: a warp adds up every eighth of its tokens.
__global__ void __launch_bounds__(kThreads) blocks_kernel(Inputs p) {
  alignas(16) __shared__ float sums[kWarps][kRowsAtOnce * kWidth];
  const Lane lane;
  const int warp = thread_index() / 32;
  const std::int64_t block = block_index();
  const std::int64_t* tokens = p.block_tokens + block * p.length;
  for (int first = 0; first < 2 * p.groups; first += kRowsAtOnce) {
    float sum[8] = {};
    const int i = first + lane.row; // groups of keys, then of values
    const bool key = i < p.groups;
    const int from = p.heads + (key ? i : 2 * p.groups + i); // v_cmp is behind three keys
    for (int c = warp; i < 2 * p.groups && c < p.length; c += kWarps) {
      const std::int64_t t = tokens[c];
      float x[8];
      load(x, p.product + (t * (p.heads + 6 * p.groups) + from) * kWidth + lane.column);
      if (key) rotate(x, p.cos + t * (kWidth / 2), p.sin + t * (kWidth / 2), lane.column / 2, 1.F);
      add(sum, x);
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) sums[warp][lane.row * kWidth + lane.column + e] = sum[e];
    __syncthreads();
    const int row = first + thread_index() / kWidth, column = thread_index() % kWidth;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += sums[w][thread_index()];
    if (row < 2 * p.groups) {
      bf16* to = row < p.groups ? p.k_blocks : p.v_blocks;
      to[(block * p.groups + row % p.groups) * kWidth + column] =
          static_cast<bf16>(pack2(total / static_cast<float>(p.length), 0.F));
    }
    __syncthreads();
  }
  const int words = p.stride * p.heads * (kWidth / 8); // places without a query
  for (int i = thread_index(); i < words; i += kThreads) {
    const std::int64_t line = i / (kWidth / 8);
    if (p.place_token[block * p.stride + line % p.stride] >= 0) continue;
    bf16* to = p.q_places + (block * p.heads * p.stride + line) * kWidth + i % (kWidth / 8) * 8;
    *reinterpret_cast<uint4*>(to) = uint4{};
  }
}

// The gradient of a token's compressed key or value: sum of dy_i / l over the blocks i with it.
__device__ __forceinline__ void
add_blocks(float (&sum)[8], const InputsBackward& p, std::int64_t t, const bf16* d_blocks, int at) {
  for (int j = 0; j < p.length / p.stride; ++j) {
    const std::int64_t block = p.token_blocks[j * static_cast<std::int64_t>(p.tokens) + t];
    if (block < p.blocks)
      add_from(sum, d_blocks + block * p.groups * kWidth + at, 1.F / static_cast<float>(p.length));
  }
}

__global__ void __launch_bounds__(kThreads) inputs_backward_kernel(InputsBackward p) {
  const Lane lane;
  const std::int64_t t = token_of_warp();
  if (t >= p.tokens) return;
  bf16* row = p.d_product + t * (p.heads + 6 * p.groups) * kWidth + lane.column;
  const float *cos = p.cos + t * (kWidth / 2), *sin = p.sin + t * (kWidth / 2);
  const std::int64_t place = p.place[t];
  const int own = p.heads / p.groups;
  for (int head = lane.row; head < p.heads; head += kRowsAtOnce) {
    const std::int64_t at = (t * p.heads + head) * kWidth + lane.column;
    float x[8] = {}, mean[8];
    load(mean, p.d_mean + (t * p.groups + head / own) * kWidth + lane.column);
    add(x, mean, 1.F / static_cast<float>(own));
    add_from(x, p.d_q[0] + at);
    add_from(x, p.d_q[1] + at);
    if (place >= 0)
      add_from(x,
               p.d_q_places + nsa_places::at_place(place, head, p.heads, p.stride, kWidth) +
                   lane.column);
    rotate(x, cos, sin, lane.column / 2, -1.F);
    store(row + head * kWidth, x);
  }
  for (int i = lane.row; i < 6 * p.groups; i += kRowsAtOnce) {
    const int kind = i / p.groups, group = i % p.groups, at = group * kWidth + lane.column;
    float x[8] = {};
    if (kind % 3 == 0)
      add_blocks(x, p, t, p.d_blocks[kind / 3], at);
    else
      load(x, p.d_branch[kind / 3 * 2 + kind % 3 - 1] + t * p.groups * kWidth + at);
    if (kind < 3) rotate(x, cos, sin, lane.column / 2, -1.F);
    store(row + (p.heads + i) * kWidth, x);
  }
}

} // namespace assay::nsa
