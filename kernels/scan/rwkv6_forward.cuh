// RWKV-6 (problem.h) in chunks of 64 tokens, four blocks of 16. Of block J:
//   q = decay of the whole block
//   r~_i = r_i (decay from the block's start to i)      k~_j = k_j (decay after j)
//   S_{J+1} = q S_J + k~^T V                            O = r~ S_J + A V
//   dS_J = q dS_{J+1} + r~^T dO                         (the way back)
// A inside a block, without any factor above 1: a pair (i, j), i > j + 1, belongs to the level m of
// 8, 4 or 2, the highest bit in which i and j differ, that is to two neighbouring halves of m
// tokens. `tree` of a level holds the second halves' rows as r_i (decay from the half's start to
// i), the first halves' as k_j (decay after j to the half's end): A of that level is tree tree^T.
// Neighbours (j = i - 1) see no decay, j = i has u. All decays are products of e^w, never
// differences of sums: slow decays keep their accuracy and fast ones end in zeros.
#pragma once

#include "kernels/scan/chunks.cuh"

namespace assay::scan {

constexpr int kBlock = 16, kRwkvThreads = 128; // tokens; threads

__device__ __forceinline__ float2 times(float2 a, float2 b) {
  return make_float2(a.x * b.x, a.y * b.y);
}

// e^w of a block's 16 tokens and two channels.
__device__ __forceinline__ void decays_of(float2 (&e)[kBlock], const bf16* w, int stride) {
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const float2 x = pair(w + i * stride);
    e[i] = make_float2(exp2_fast(kLog2E * x.x), exp2_fast(kLog2E * x.y));
  }
}
// r~ or k~ (kOfR); pointers to this lane's two channels of the block's first row. May work in
// place. Gives q.
template <bool kOfR>
__device__ __forceinline__ float2 block_rows(const float2 (&e)[kBlock], const bf16* x, bf16* out) {
  float2 p = make_float2(1, 1);
#pragma unroll
  for (int s = 0; s < kBlock; ++s) {
    const int i = kOfR ? s : kBlock - 1 - s;
    const std::uint32_t two = word(x + i * kStride);
    put(out + i * kStride, s == 0 ? two : mul2(two, pack2(p.x, p.y)));
    p = times(p, e[i]);
  }
  return p;
}
// The rows of r or of k (kOfR) in the tree's levels 8, 4, 2 of a block: tree[0], tree[1], tree[2].
template <bool kOfR>
__device__ __forceinline__ void
tree_rows(const float2 (&e)[kBlock], const bf16* x, bf16* const (&tree)[3]) {
  float2 p[3] = {};
#pragma unroll
  for (int s = 0; s < kBlock; ++s) {
    const int i = kOfR ? s : kBlock - 1 - s;
    const std::uint32_t two = word(x + i * kStride);
#pragma unroll
    for (int l = 0; l < 3; ++l) {
      const int m = 8 >> l;
      if (((i & m) != 0) != kOfR) continue;
      const bool first = i % (2 * m) == (kOfR ? m : m - 1);
      put(tree[l] + i * kStride, first ? two : mul2(two, pack2(p[l].x, p[l].y)));
      p[l] = first ? e[i] : times(p[l], e[i]);
    }
  }
}
// Does the pair of row i and column j, i > j + 1, belong to level m = 8 >> l?
__device__ __forceinline__ bool at_level(int i, int j, int l) {
  return (i ^ j) >> (3 - l) == 1 && i > j + 1;
}

// A of a block (kTransposed: A^T), as accumulators of 16 x 16. raw_r, raw_k: the block's rows; u:
// of the head.
template <bool kTransposed>
__device__ __forceinline__ void near_scores(
    float (&a)[2][4], const bf16* raw_r, const bf16* raw_k, const float* u, const Lane& at) {
  float near[2][4] = {}, own[2][4] = {};
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    std::uint32_t left[4], right[4], bonus[4];
    load_a(left, kTransposed ? raw_k : raw_r, kStride, 0, k, at.lane);
    load_a(right, kTransposed ? raw_r : raw_k, kStride, 0, k, at.lane);
    const float2 u0 = *reinterpret_cast<const float2*>(u + k + 2 * at.c),
                 u1 = *reinterpret_cast<const float2*>(u + k + 8 + 2 * at.c);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float2 x = times(unpack2(left[e]), e < 2 ? u0 : u1);
      bonus[e] = pack2(x.x, x.y);
    }
    mma(near[0],
        left,
        right[0],
        right[2]); // rows of a left operand serve as columns of a right one
    mma(near[1], left, right[1], right[3]);
    mma(own[0], bonus, right[0], right[2]);
    mma(own[1], bonus, right[1], right[3]);
  }
#pragma unroll
  for (int nt = 0; nt < 2; ++nt)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int x = at.r + 8 * (e / 2), y = 8 * nt + 2 * at.c + (e & 1), i = kTransposed ? y : x,
                j = kTransposed ? x : y;
      a[nt][e] = i == j ? own[nt][e] : i == j + 1 ? near[nt][e] : 0.f;
    }
}
template <bool kTransposed>
__device__ __forceinline__ void
tree_scores(float (&a)[2][4], bf16* const (&tree)[3], const Lane& at) {
#pragma unroll
  for (int l = 0; l < 3; ++l) {
    float x[2][4] = {};
#pragma unroll
    for (int k = 0; k < kWidth; k += 16) {
      std::uint32_t rows[4];
      load_a(rows, tree[l], kStride, 0, k, at.lane);
      if (l > 0 || !kTransposed) mma(x[0], rows, rows[0], rows[2]);
      if (l > 0 || kTransposed) mma(x[1], rows, rows[1], rows[3]);
    }
#pragma unroll
    for (int nt = 0; nt < 2; ++nt)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int x_ = at.r + 8 * (e / 2), y = 8 * nt + 2 * at.c + (e & 1);
        if (at_level(kTransposed ? y : x_, kTransposed ? x_ : y, l)) a[nt][e] = x[nt][e];
      }
  }
}

// ------------------------------------------------------------------------------------------------
// state

struct RwkvState {
  ChunkTable at;
  const bf16 *key, *value; // [T, heads, 64]: k and v; in reverse r and dO
  const bf16* w;           // [T, heads, 64]: log decay
  const float* begin; // [slots, heads, 64, 64]: states before the first token (reverse: gradients
                      // after the last)
  float* end;
  bf16* states; // [chunks, heads, 64, 64]: S entering (reverse: dS leaving)
  float* decay; // [chunks, heads, 64]: of whole chunks, for `chain`
};

template <bool kAdded> struct RwkvStateMemory { // elements of bf16, but `bytes`
  static constexpr int stages = kAdded ? 1 : 4;
  static constexpr int key = 0, w = kTile, value = 2 * kTile, stage = 3 * kTile, q = stages * stage;
  static constexpr int bytes = q * 2 + 2 * 4 * kWidth * 4;
};

// kAdded: what a chunk adds to the state, for `chain`; else along a segment, keeping the states.
template <bool kReverse, bool kAdded>
__global__ void __launch_bounds__(kRwkvThreads, kAdded ? 6 : 2) rwkv6_state(RwkvState p) {
  using M = RwkvStateMemory<kAdded>;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  float* all_q = reinterpret_cast<float*>(memory + M::q);
  const Lane at;
  const int segment = block_index() / p.at.heads, head = block_index() % p.at.heads;
  const Span span(p.at, segment);
  const auto place = [&](int t) { return kReverse ? span.count - 1 - t : t; };
  const int row = 16 * at.warp + at.r; // channel
  const std::int64_t stride = wide(p.at.heads) * kWidth;
  const auto state_of = [&](int t) {
    return ((wide(span.begin + place(t)) * p.at.heads + head) * kWidth + row) * kWidth;
  };
  const auto load = [&](int t) {
    if (t < span.count) {
      bf16* to = memory + t % M::stages * M::stage;
      const int2 chunk = span.chunk(place(t));
      const std::int64_t from = chunk.x * stride + head * kWidth;
      load_rows<kChunk, kWidth, kRwkvThreads>(to + M::key, kStride, p.key + from, stride, chunk.y);
      load_rows<kChunk, kWidth, kRwkvThreads>(to + M::w, kStride, p.w + from, stride, chunk.y);
      load_rows<kChunk, kWidth, kRwkvThreads>(
          to + M::value, kStride, p.value + from, stride, chunk.y);
    }
    copies_commit();
  };
  const auto prepare = [&](int t) { // k~ (reverse: r~) in place, warp J for block J
    bf16* stage = memory + t % M::stages * M::stage + kBlock * kStride * at.warp + 2 * at.lane;
    float2 e[kBlock];
    decays_of(e, stage + M::w, kStride);
    *reinterpret_cast<float2*>(all_q + ((t & 1) * 4 + at.warp) * kWidth + 2 * at.lane) =
        block_rows<kReverse>(e, stage + M::key, stage + M::key);
  };

  float s[8][4] = {};
  if (!kAdded && span.slot.x >= 0) {
    const float* from =
        p.begin + ((wide(span.slot.x) * p.at.heads + head) * kWidth + row) * kWidth + 2 * at.c;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float2 x = *reinterpret_cast<const float2*>(from + 8 * j);
      const float2 y = *reinterpret_cast<const float2*>(from + 8 * kWidth + 8 * j);
      s[j][0] = x.x, s[j][1] = x.y, s[j][2] = y.x, s[j][3] = y.y;
    }
  }
  const auto store = [&](bf16* to, const float(&x)[8][4]) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      store_pair(to, j, pack2(x[j][0], x[j][1]), pack2(x[j + 1][0], x[j + 1][1]), at.c, true);
      store_pair(
          to + 8 * kWidth, j, pack2(x[j][2], x[j][3]), pack2(x[j + 1][2], x[j + 1][3]), at.c, true);
    }
  };
  // A chunk is prepared while the one before it is added: one barrier a chunk.
  constexpr int kAhead = M::stages - 1;
#pragma unroll
  for (int t = 0; t < (kAdded ? 1 : kAhead); ++t) load(t);
  copies_wait<(kAdded ? 0 : kAhead - 1)>();
  __syncthreads();
  prepare(0);
  for (int t = 0; t < span.count; ++t) {
    copies_wait<(kAdded ? 0 : kAhead - 2)>();
    __syncthreads();
    if constexpr (!kAdded) {
      load(t + kAhead);
      if (t + 1 < span.count) prepare(t + 1);
    }
    const bf16* stage = memory + t % M::stages * M::stage;
    const float* q = all_q + (t & 1) * 4 * kWidth + row;
    if constexpr (!kAdded) store(p.states + state_of(t), s);
    float added[8][4] = {}, keep0 = 1, keep1 = 1;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const int block = kReverse ? 3 - step : step;
      const float q0 = q[block * kWidth], q1 = q[block * kWidth + 8];
      keep0 *= q0, keep1 *= q1;
      if (step > 0) {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          added[j][0] *= q0, added[j][1] *= q0, added[j][2] *= q1, added[j][3] *= q1;
      }
      std::uint32_t left[4];
      load_a_t(left, stage + M::key, kStride, 16 * at.warp, kBlock * block, at.lane);
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        std::uint32_t right[4];
        load_b(right, stage + M::value, kStride, kBlock * block, 8 * j, at.lane);
        mma(added[j], left, right[0], right[1]);
        mma(added[j + 1], left, right[2], right[3]);
      }
    }
    if constexpr (kAdded) {
      store(p.states + state_of(t), added);
      if (at.c == 0) {
        float* to = p.decay + (wide(span.begin) * p.at.heads + head) * kWidth + row;
        to[0] = keep0, to[8] = keep1;
      }
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float2 upper = unpack2(pack2(added[j][0], added[j][1])),
                     lower = unpack2(pack2(added[j][2], added[j][3]));
        s[j][0] = fmaf(keep0, s[j][0], upper.x), s[j][1] = fmaf(keep0, s[j][1], upper.y);
        s[j][2] = fmaf(keep1, s[j][2], lower.x), s[j][3] = fmaf(keep1, s[j][3], lower.y);
      }
    }
  }
  copies_wait<0>();
  if (!kAdded && span.slot.y >= 0) {
    float* to =
        p.end + ((wide(span.slot.y) * p.at.heads + head) * kWidth + row) * kWidth + 2 * at.c;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      *reinterpret_cast<float2*>(to + 8 * j) = make_float2(s[j][0], s[j][1]);
      *reinterpret_cast<float2*>(to + 8 * kWidth + 8 * j) = make_float2(s[j][2], s[j][3]);
    }
  }
}

// ------------------------------------------------------------------------------------------------
// output

constexpr int kRwkvOutputBytes = 8 * kTile * 2 + 4 * kWidth * 4;

// S <- q S + keys^T values over a block's rows: 16 channels (pointers to the first), kTiles tiles
// of values.
template <int kTiles>
__device__ __forceinline__ void advance_state(
    float (&s)[kTiles][4], const float* q, const bf16* keys, const bf16* values, const Lane& at) {
  const float q0 = q[at.r], q1 = q[at.r + 8];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) s[j][0] *= q0, s[j][1] *= q0, s[j][2] *= q1, s[j][3] *= q1;
  std::uint32_t left[4];
  load_a_t(left, keys, kStride, 0, 0, at.lane);
#pragma unroll
  for (int j = 0; j < kTiles; j += 2) {
    std::uint32_t right[4];
    load_b(right, values, kStride, 0, 8 * j, at.lane);
    mma(s[j], left, right[0], right[1]);
    mma(s[j + 1], left, right[2], right[3]);
  }
}
// += left right^T or left right, 16 rows by kTiles tiles of 8 columns, over 64.
template <bool kTransposed, int kTiles>
__device__ __forceinline__ void
add_product(float (&x)[kTiles][4], const bf16* left_rows, const bf16* right_rows, const Lane& at) {
#pragma unroll
  for (int k = 0; k < kWidth; k += 16) {
    std::uint32_t left[4];
    load_a(left, left_rows, kStride, 0, k, at.lane);
#pragma unroll
    for (int j = 0; j < kTiles; j += 2) {
      std::uint32_t right[4];
      if (kTransposed)
        load_b_t(right, right_rows, kStride, k, 8 * j, at.lane);
      else
        load_b(right, right_rows, kStride, k, 8 * j, at.lane);
      mma(x[j], left, right[0], right[1]);
      mma(x[j + 1], left, right[2], right[3]);
    }
  }
}

__global__ void __launch_bounds__(kRwkvThreads, 3) rwkv6_output(Rwkv6 p) {
  bf16* sr = reinterpret_cast<bf16*>(shared_memory());
  bf16 *sk = sr + kTile, *sv = sk + kTile, *sw = sv + kTile,
       *ss = sw + kTile; // ss: states entering the four blocks
  float* q = reinterpret_cast<float*>(ss + 4 * kTile);
  const Lane at;
  const int n = block_index() / p.at.heads, head = block_index() % p.at.heads;
  const int2 chunk = p.at.chunk[n];
  const std::int64_t from = (wide(chunk.x) * p.at.heads + head) * kWidth,
                     stride = wide(p.at.heads) * kWidth;
  const auto load = [&](bf16* to, const bf16* x) {
    load_rows<kChunk, kWidth, kRwkvThreads>(to, kStride, x + from, stride, chunk.y);
  };
  load(sr, p.r), load(sk, p.k), load(sw, p.w);
  copies_commit();
  load(sv, p.v);
  load_rows<kWidth, kWidth, kRwkvThreads>(
      ss, kStride, p.states + wide(blockIdx.x) * kWidth * kWidth, kWidth, kWidth);
  copies_commit();
  copies_wait<1>();
  __syncthreads();

  // Warp I has block I.
  const int block = kBlock * kStride * at.warp, lane = block + 2 * at.lane;
  float a[2][4];
  near_scores<false>(a, sr + block, sk + block, p.u + head * kWidth, at);
  __syncwarp();
  {
    float2 e[kBlock];
    decays_of(e, sw + lane, kStride);
    bf16* const tree[3] = {
        ss + kTile + lane, ss + 2 * kTile + lane, ss + 3 * kTile + lane}; // places of later states
    tree_rows<true>(e, sr + lane, tree);
    tree_rows<false>(e, sk + lane, tree);
    block_rows<true>(e, sr + lane, sr + lane);
    *reinterpret_cast<float2*>(q + at.warp * kWidth + 2 * at.lane) =
        block_rows<false>(e, sk + lane, sk + lane);
  }
  __syncwarp();
  bf16* const tree[3] = {ss + kTile + block, ss + 2 * kTile + block, ss + 3 * kTile + block};
  tree_scores<false>(a, tree, at);
  std::uint32_t weights[4];
  as_left(weights, a[0], a[1]);
  copies_wait<0>();
  __syncthreads();
  float s[8][4];
  const int band = 16 * at.warp; // of channels
  take_rows(s, ss + band * kStride, kStride, at.lane);
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    advance_state(
        s, q + j * kWidth + band, sk + j * kBlock * kStride + band, sv + j * kBlock * kStride, at);
    give_rows(ss + (j + 1) * kTile + band * kStride, kStride, s, at);
  }
  __syncthreads();
  float o[8][4] = {};
  add_product<false>(o, sr + block, ss + at.warp * kTile, at);
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    std::uint32_t right[4];
    load_b(right, sv + block, kStride, 0, 8 * j, at.lane);
    mma(o[j], weights, right[0], right[1]);
    mma(o[j + 1], weights, right[2], right[3]);
  }
  const int row = kBlock * at.warp;
  store_rows(p.out + from + row * stride, stride, sr + block, kStride, o, chunk.y - row, at);
}

} // namespace assay::scan
