// Mamba-2's SSD (problem.h) in chunks of 64 tokens. Per chunk with entering state S, gamma the
// running sum of the log decay in units of log 2, end: gamma of the last token:
//   Y = (C B^T * L) X + 2^gamma C S         L_ij = 2^{gamma_i - gamma_j}, i >= j
//   S <- 2^end S + B^T (2^{end - gamma} X)
// The gradient of x is the same from the last token to the first, with B, C and Y, X changing
// places (dS: the gradient of the state that leaves the chunk):
//   dX = (B C^T * L^T) dY + 2^{end - gamma} B dS
//   dS <- 2^end dS + C^T (2^gamma dY)
// so `ssd_scan` does both. It keeps S (dS) of every chunk for the gradients of b, c and a.
#pragma once

#include "kernels/scan/chunks.cuh"

namespace assay::scan {

struct SsdScan {
  ChunkTable at;
  const bf16 *query, *key; // [T, groups, N]: c and b; in reverse b and c
  const bf16* in;          // [T, heads, 64]: x; in reverse dY
  const float* a;          // [T, heads]: log decay
  const float* begin; // [slots, heads, N, 64]: states before the first token (reverse: gradients
                      // after the last)
  float* end;
  bf16* states; // [chunks, heads, N, 64]: S entering (reverse: dS leaving)
  float* decay; // [chunks, heads]: of whole chunks, for `chain`
  bf16* out;    // [T, heads, 64]
  int groups;
};

// kWhole: everything in one pass along a segment. For few long segments, two passes over chunks
// that are segments of their own: kAdded: what a chunk adds to the state; after `chain`, kOutput:
// from the states to `out`.
enum class Pass { kWhole, kAdded, kOutput };

// gamma of a chunk by one warp, the factors that a row enters with, and in pairs of bf16 those that
// it leaves with. Lane l holds a of rows 2 l, 2 l + 1.
struct Factors {
  float gamma[kChunk], enter[kChunk], leave[kChunk];
  std::uint32_t leave2[kChunk / 2];
};
template <bool kReverse>
__device__ __forceinline__ void factors_of(Factors& to, float a0, float a1, int lane) {
  a0 *= kLog2E, a1 *= kLog2E;
  float sum = a0 + a1;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const float before = __shfl_up_sync(0xffffffffU, sum, d);
    if (lane >= d) sum += before;
  }
  const float whole = __shfl_sync(0xffffffffU, sum, 31), g[2] = {sum - a1, sum};
  float leave[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float from_begin = exp2_fast(g[i]), to_end = exp2_fast(whole - g[i]);
    to.gamma[2 * lane + i] = g[i];
    to.enter[2 * lane + i] = kReverse ? to_end : from_begin;
    to.leave[2 * lane + i] = leave[i] = kReverse ? from_begin : to_end;
  }
  to.leave2[lane] = pack2(leave[0], leave[1]);
}

constexpr int kScanThreads =
    128; // 2 bands of 32 tokens (of N / 2 rows of the state) x 2 halves of the columns

template <int N, Pass kPass> struct ScanMemory { // elements of bf16, but `bytes`
  static constexpr int stages = kPass != Pass::kWhole ? 1 : N == 64 ? 3 : 2;
  static constexpr int key_stride = N + kPad;
  static constexpr int query = 0, key = query + kChunk * key_stride, in = key + kChunk * key_stride,
                       stage = in + kChunk * kStride;
  static constexpr int states = kPass == Pass::kAdded              ? 0
                                : kPass == Pass::kWhole && N == 64 ? 2
                                                                   : 1;
  static constexpr bool own_weights = N == 64; // else they take the query's place
  static constexpr int state = stages * stage, weights = state + states * N * kStride,
                       factors = weights + (own_weights ? kTile : 0),
                       bytes = factors * 2 + 2 * static_cast<int>(sizeof(Factors));
};

template <int N, bool kReverse, Pass kPass>
__global__ void __launch_bounds__(kScanThreads, kPass == Pass::kWhole ? 2 : 3) ssd_scan(SsdScan p) {
  using M = ScanMemory<N, kPass>;
  constexpr int kRows = N / 32; // 16-row tiles of the state a warp
  constexpr bool kWhole = kPass == Pass::kWhole, kOut = kPass != Pass::kAdded,
                 kAdd = kPass != Pass::kOutput;
  bf16* memory = reinterpret_cast<bf16*>(shared_memory());
  bf16* ss = memory + M::state;
  Factors* factors = reinterpret_cast<Factors*>(memory + M::factors);
  const Lane at;
  const int band = at.warp / 2, half = at.warp % 2, row = 32 * band + at.r, column = 32 * half;
  const int segment = block_index() / p.at.heads, head = block_index() % p.at.heads;
  const int group = head / (p.at.heads / p.groups);
  const Span span(p.at, segment);
  const auto place = [&](int t) { return kReverse ? span.count - 1 - t : t; }; // of step t
  const auto state_of = [&](int t) {
    return (wide(span.begin + place(t)) * p.at.heads + head) * N * kWidth;
  };
  const std::int64_t value_stride = wide(p.at.heads) * kWidth, keys_stride = wide(p.groups) * N;

  const auto load = [&](int t) {
    if (t < span.count) {
      bf16* to = memory + t % M::stages * M::stage;
      const int2 chunk = span.chunk(place(t));
      const std::int64_t keys = chunk.x * keys_stride + group * N;
      load_rows<kChunk, N, kScanThreads>(
          to + M::key, M::key_stride, p.key + keys, keys_stride, chunk.y);
      if constexpr (kOut)
        load_rows<kChunk, N, kScanThreads>(
            to + M::query, M::key_stride, p.query + keys, keys_stride, chunk.y);
      load_rows<kChunk, kWidth, kScanThreads>(to + M::in,
                                              kStride,
                                              p.in + chunk.x * value_stride + head * kWidth,
                                              value_stride,
                                              chunk.y);
      if constexpr (kPass == Pass::kOutput)
        load_rows<N, kWidth, kScanThreads>(ss, kStride, p.states + state_of(t), kWidth, N);
    }
    copies_commit();
  };
  // A pair (i, j) counts if j <= i, in reverse if j >= i: one of the four warps has no scores, it
  // makes the decays.
  const bool scores = at.warp != (kReverse ? 2 : 1);
  float a0 = 0, a1 = 0;
  const auto fetch = [&](int t) {
    if (scores || t >= span.count) return;
    const int2 chunk = span.chunk(place(t));
    const float* a = p.a + wide(chunk.x) * p.at.heads + head;
    a0 = 2 * at.lane < chunk.y ? a[wide(2 * at.lane) * p.at.heads] : 0.f;
    a1 = 2 * at.lane + 1 < chunk.y ? a[wide(2 * at.lane + 1) * p.at.heads] : 0.f;
  };
  const auto publish = [&](int t) {
    if (!scores) factors_of<kReverse>(factors[t & 1], a0, a1, at.lane);
  };

#pragma unroll
  for (int t = 0; t + 1 < M::stages; ++t) load(t);
  if constexpr (M::stages == 1) load(0);
  fetch(0);
  publish(0);
  fetch(1);
  float s[kRows][4][4] = {};
  const int states_row = 16 * kRows * band + at.r;
  if constexpr (kWhole) {
    const float* from = span.slot.x < 0
                            ? nullptr
                            : p.begin + (wide(span.slot.x) * p.at.heads + head) * N * kWidth +
                                  states_row * kWidth + column + 2 * at.c;
    if (from) {
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float2 x = *reinterpret_cast<const float2*>(from + 16 * i * kWidth + 8 * j);
          const float2 y = *reinterpret_cast<const float2*>(from + (16 * i + 8) * kWidth + 8 * j);
          s[i][j][0] = x.x, s[i][j][1] = x.y, s[i][j][2] = y.x, s[i][j][3] = y.y;
        }
    }
  }
  const auto give_state = [&](bf16* to) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
      give_rows(to + 16 * (kRows * band + i) * kStride + column, kStride, s[i], at);
  };
  if constexpr (kWhole) give_state(ss);
  for (int t = 0; t < span.count; ++t) {
    copies_wait<(M::stages > 1 ? M::stages - 2 : 0)>();
    __syncthreads();
    bf16* stage = memory + t % M::stages * M::stage;
    const Factors& of = factors[t & 1];
    const int2 chunk = span.chunk(place(t));
    const bf16* now = ss + (M::states == 2 ? t & 1 : 0) * N * kStride;
    constexpr int kWeightsStride = M::own_weights ? kStride : M::key_stride;
    bf16* weights =
        (M::own_weights ? memory + M::weights : stage + M::query) + 32 * band * kWeightsStride;
    float out[2][4][4] = {};
    if constexpr (kOut) {
      const bf16* query = stage + M::query + 32 * band * M::key_stride;
      float x[2][4][4] = {};
      const auto from_query = [&](auto with_scores) {
#pragma unroll
        for (int k = 0; k < N; k += 16) {
          std::uint32_t left[2][4], right[2][4];
#pragma unroll
          for (int m = 0; m < 2; ++m) load_a(left[m], query, M::key_stride, 16 * m, k, at.lane);
          if constexpr (decltype(with_scores)::value) {
#pragma unroll
            for (int j = 0; j < 2; ++j)
              load_b_t(right[j], stage + M::key, M::key_stride, k, column + 16 * j, at.lane);
#pragma unroll
            for (int m = 0; m < 2; ++m)
#pragma unroll
              for (int j = 0; j < 4; ++j)
                mma(x[m][j], left[m], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
          }
#pragma unroll
          for (int j = 0; j < 2; ++j) load_b(right[j], now, kStride, k, column + 16 * j, at.lane);
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int j = 0; j < 4; ++j)
              mma(out[m][j], left[m], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
        }
      };
      if (scores) {
        from_query(std::true_type{});
        // 2^{gamma_i - gamma_j}, in reverse of the opposite, never above 1: across a border between
        // blocks of tokens
        // (`middle`: the last token before it) a factor of the row times one of the column.
        const auto across = [&](int m, int nb, float middle, float upper, float lower) {
#pragma unroll
          for (int nt = 2 * nb; nt < 2 * nb + 2; ++nt) {
            const float2 gj =
                *reinterpret_cast<const float2*>(of.gamma + column + 8 * nt + 2 * at.c);
            const float f0 = exp2_fast(kReverse ? gj.x - middle : middle - gj.x),
                        f1 = exp2_fast(kReverse ? gj.y - middle : middle - gj.y);
            x[m][nt][0] *= upper * f0, x[m][nt][1] *= upper * f1, x[m][nt][2] *= lower * f0,
                x[m][nt][3] *= lower * f1;
          }
        };
        const float middle = of.gamma[band == half ? 32 * band + 15 : 31];
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const float g0 = of.gamma[row + 16 * m], g1 = of.gamma[row + 16 * m + 8];
          if (band != half || m == (kReverse ? 0 : 1)) {
            const float upper = exp2_fast(kReverse ? middle - g0 : g0 - middle),
                        lower = exp2_fast(kReverse ? middle - g1 : g1 - middle);
            across(m, kReverse ? 1 : 0, middle, upper, lower);
            if (band != half) across(m, kReverse ? 0 : 1, middle, upper, lower);
          }
          if (band == half) {
#pragma unroll
            for (int nt = 2 * m; nt < 2 * m + 2; ++nt) {
              const float2 gj =
                  *reinterpret_cast<const float2*>(of.gamma + column + 8 * nt + 2 * at.c);
#pragma unroll
              for (int e = 0; e < 4; ++e) {
                const int i = 16 * m + at.r + 8 * (e / 2), j = 8 * nt + 2 * at.c + (e & 1);
                const float d = (e / 2 ? g1 : g0) - (e & 1 ? gj.y : gj.x);
                x[m][nt][e] =
                    (kReverse ? j >= i : j <= i) ? x[m][nt][e] * exp2_fast(kReverse ? -d : d) : 0.f;
              }
            }
            if (m == (kReverse ? 1 : 0)) { // beyond the diagonal
#pragma unroll
              for (int nt = 2 - 2 * m; nt < 4 - 2 * m; ++nt)
#pragma unroll
                for (int e = 0; e < 4; ++e) x[m][nt][e] = 0;
            }
          }
        }
      } else {
        if (t + 1 < span.count) {
          publish(t + 1);
          fetch(t + 2);
        }
        from_query(std::false_type{});
      }
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const float e0 = of.enter[row + 16 * m], e1 = of.enter[row + 16 * m + 8];
#pragma unroll
        for (int j = 0; j < 4; ++j)
          out[m][j][0] *= e0, out[m][j][1] *= e0, out[m][j][2] *= e1, out[m][j][3] *= e1;
      }
      if constexpr (!M::own_weights) pair_barrier(band); // the query is read
#pragma unroll
      for (int m = 0; m < 2; ++m)
        give_rows(weights + 16 * m * kWeightsStride + column, kWeightsStride, x[m], at);
      if constexpr (M::stages > 1) load(t + M::stages - 1);
      pair_barrier(band);
    }
    float added[kRows][4][4] = {};
    const auto from_in = [&](auto with_out, auto with_added) {
#pragma unroll
      for (int k = 0; k < kChunk; k += 16) {
        std::uint32_t left[4], right[2][4];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          load_b(right[j], stage + M::in, kStride, k, column + 16 * j, at.lane);
        if constexpr (decltype(with_out)::value) {
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            load_a(left, weights, kWeightsStride, 16 * m, k, at.lane);
#pragma unroll
            for (int j = 0; j < 4; ++j)
              mma(out[m][j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
          }
        }
        if constexpr (decltype(with_added)::value) {
          const std::uint32_t f0 = of.leave2[k / 2 + at.c], f1 = of.leave2[k / 2 + 4 + at.c];
#pragma unroll
          for (int i = 0; i < kRows; ++i) {
            load_a_t(left, stage + M::key, M::key_stride, 16 * (kRows * band + i), k, at.lane);
#pragma unroll
            for (int e = 0; e < 4; ++e) left[e] = mul2(left[e], e < 2 ? f0 : f1);
#pragma unroll
            for (int j = 0; j < 4; ++j)
              mma(added[i][j], left, right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
          }
        }
      }
    };
    constexpr bool kTogether = kWhole && N == 64; // else too many registers
    if constexpr (kTogether)
      from_in(std::true_type{}, std::true_type{});
    else if constexpr (kOut)
      from_in(std::true_type{}, std::false_type{});
    if constexpr (kOut) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int y = row + 16 * m;
        bf16* to = p.out + (chunk.x + y) * value_stride + head * kWidth + column;
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          const auto &left = out[m][j], &right = out[m][j + 1];
          store_pair(to, j, pack2(left[0], left[1]), pack2(right[0], right[1]), at.c, y < chunk.y);
          store_pair(to + 8 * value_stride,
                     j,
                     pack2(left[2], left[3]),
                     pack2(right[2], right[3]),
                     at.c,
                     y + 8 < chunk.y);
        }
      }
    }
    if constexpr (kWhole) { // S, for the gradients
#pragma unroll
      for (int i = 0; i < N * kWidth / 8 / kScanThreads; ++i) {
        const int word = thread_index() + i * kScanThreads, y = word / 8, x = word % 8 * 8;
        *reinterpret_cast<uint4*>(p.states + state_of(t) + y * kWidth + x) =
            *reinterpret_cast<const uint4*>(now + y * kStride + x);
      }
    }
    if constexpr (kAdd) {
      if constexpr (!kTogether) from_in(std::false_type{}, std::true_type{});
      const float keep = exp2_fast(of.gamma[kChunk - 1]);
      if constexpr (kPass == Pass::kAdded) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          bf16* to = p.states + state_of(t) + (states_row + 16 * i) * kWidth + column;
#pragma unroll
          for (int j = 0; j < 4; j += 2) {
            const auto &left = added[i][j], &right = added[i][j + 1];
            store_pair(to, j, pack2(left[0], left[1]), pack2(right[0], right[1]), at.c, true);
            store_pair(
                to + 8 * kWidth, j, pack2(left[2], left[3]), pack2(right[2], right[3]), at.c, true);
          }
        }
        if (thread_index() == 0) p.decay[wide(span.begin + place(t)) * p.at.heads + head] = keep;
      } else {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            float(&x)[4] = s[i][j];
            const auto& y = added[i][j];
            const float2 upper = unpack2(pack2(y[0], y[1])), lower = unpack2(pack2(y[2], y[3]));
            x[0] = fmaf(keep, x[0], upper.x), x[1] = fmaf(keep, x[1], upper.y);
            x[2] = fmaf(keep, x[2], lower.x), x[3] = fmaf(keep, x[3], lower.y);
          }
        if constexpr (M::states == 1) __syncthreads(); // S is read
        give_state(ss + (M::states == 2 ? ~t & 1 : 0) * N * kStride);
      }
    }
  }
  copies_wait<0>();
  if constexpr (kWhole)
    if (span.slot.y >= 0) {
      float* to = p.end + (wide(span.slot.y) * p.at.heads + head) * N * kWidth +
                  states_row * kWidth + column + 2 * at.c;
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          *reinterpret_cast<float2*>(to + 16 * i * kWidth + 8 * j) =
              make_float2(s[i][j][0], s[i][j][1]);
          *reinterpret_cast<float2*>(to + (16 * i + 8) * kWidth + 8 * j) =
              make_float2(s[i][j][2], s[i][j][3]);
        }
    }
}

} // namespace assay::scan
