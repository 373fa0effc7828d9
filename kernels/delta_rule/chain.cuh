// What `state` and `reverse` share. A block takes a segment or a piece of it, a head and DV of its
// D value columns, chunk after chunk. A warp keeps S^T of 16 columns in registers through all
// chunks: a product's result is the next product's left operand, so that between loads no warp
// waits for another. Two warps more copy: inputs of later chunks, and results of the chunk before.
#pragma once

#include "kernels/delta_rule/chunk.cuh"

namespace assay::delta_rule {

// Blocks of 32 columns put a batch of one sequence and 32 heads on 128 SMs.
template <int D> constexpr int kValuePart = D == 64 ? 64 : 32;
constexpr int kMovers = 64; // threads
template <int DV> constexpr int kChainThreads = 2 * DV + kMovers;
// With how many chunks to go the kernel after may start: its start is hidden then. Earlier it would
// only wait, and look slow in a trace.
constexpr int kChunksLeft = 4;

// What a block does: a whole segment; a piece of one, from the state that enters it; or what a
// piece does to a state, from zero or from unit states, and no result of a chunk.
enum class Chain { Whole, Piece, Effect };

// Chunks of a segment or a piece. Those of one segment follow one another: no look-up on the way.
struct Span {
  int begin, end;           // chunks
  int first, token, tokens; // of the segment
  __device__ Span(const Problem& p, int segment)
      : begin(p.first[segment]), end(p.first[segment + 1]), first(begin), token(p.chunk[first].x),
        tokens((end - first - 1) * kChunk + p.chunk[end - 1].y) {}
  __device__ Span(const Problem& p, int segment, int piece) : Span(p, segment) {
    const int chunks = end - first;
    begin = first + chunks * piece / p.pieces, end = first + chunks * (piece + 1) / p.pieces;
  }
  __device__ int2 chunk(int n) const {
    const int before = (n - first) * kChunk, left = tokens - before;
    return make_int2(token + before, left < kChunk ? left : kChunk);
  }
};

// A warp's 16 rows of S^T: in fp32, and rounded as the left operand of a product over keys.
template <int D> struct StateRows {
  float sum[D / 8][4] = {};
  std::uint32_t rounded[D / 16][4] = {};

  __device__ __forceinline__ void scale(float by) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) sum[j][e] *= by;
  }
  // += left rows, over a chunk's tokens; `rows` of D keys.
  __device__ __forceinline__ void
  add(const std::uint32_t (&left)[4][4], const bf16* rows, const Lane& at) {
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
      for (int j = 0; j < D / 16; ++j) {
        std::uint32_t b[4];
        load_b(b, rows, D + kPad, 16 * t, 16 * j, at.lane);
        mma(sum[2 * j], left[t], b[0], b[1]);
        mma(sum[2 * j + 1], left[t], b[2], b[3]);
      }
  }
  // x += S^T rows^T, rounded S.
  __device__ __forceinline__ void
  times_rows(float (&x)[8][4], const bf16* rows, const Lane& at) const {
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::uint32_t b[4];
        load_b_t(b, rows, D + kPad, 16 * k, 16 * j, at.lane);
        mma(x[2 * j], rounded[k], b[0], b[1]);
        mma(x[2 * j + 1], rounded[k], b[2], b[3]);
      }
  }
  __device__ __forceinline__ void round() {
#pragma unroll
    for (int k = 0; k < D / 16; ++k) as_left(rounded[k], sum[2 * k], sum[2 * k + 1]);
  }
  // Rows of fp32 in device memory: 16 of each warp.
  __device__ __forceinline__ void load(const float* rows, const Lane& at) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 two = *reinterpret_cast<const float2*>(
            rows + (16 * at.warp + at.r + 8 * i) * D + 8 * j + 2 * at.c);
        sum[j][2 * i] = two.x, sum[j][2 * i + 1] = two.y;
      }
  }
  __device__ __forceinline__ void store(float* rows, const Lane& at) const {
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        *reinterpret_cast<float2*>(rows + (16 * at.warp + at.r + 8 * i) * D + 8 * j + 2 * at.c) =
            make_float2(sum[j][2 * i], sum[j][2 * i + 1]);
  }
  // Rows of the unit matrix, from `first` on.
  __device__ __forceinline__ void set_units(int first, const Lane& at) {
#pragma unroll
    for (int j = 0; j < D / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum[j][e] = first + 16 * at.warp + at.r + e / 2 * 8 == 8 * j + 2 * at.c + e % 2 ? 1.f : 0.f;
  }
  // Puts the rounded rows into shared memory.
  __device__ __forceinline__ void put(bf16* state, const Lane& at) const {
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        *reinterpret_cast<std::uint32_t*>(state + (16 * at.warp + at.r + e % 2 * 8) * (D + kPad) +
                                          16 * k + e / 2 * 8 + 2 * at.c) = rounded[k][e];
  }
};

// The pieces whose effects on the states are needed: all but the last that a state enters.
enum class Needed { ButTheLast, ButTheFirst };

template <int D, int DV, Chain kChain> struct SegmentPart {
  static constexpr int kParts = D / DV, kEffects = kChain == Chain::Effect ? 2 : 1;
  int part, head, key_head, piece, segment;
  bool of_units; // of an effect: M, else B
  Span span;

  __device__ explicit SegmentPart(const Problem& p, Needed needed = Needed::ButTheLast)
      : part(block_index() / kEffects % kParts), head(block_index() / kEffects / kParts % p.heads),
        key_head(head / (p.heads / p.heads_k)),
        piece(kChain == Chain::Whole
                  ? 0
                  : block_index() / kEffects / kParts / p.heads % taken(p) +
                        (kChain == Chain::Effect && needed == Needed::ButTheFirst)),
        segment(block_index() / kEffects / kParts / p.heads / taken(p)),
        of_units(kChain == Chain::Effect && block_index() % 2 == 1),
        span(kChain == Chain::Whole ? Span(p, segment) : Span(p, segment, piece)) {
    // Nothing enters the piece where a chain begins: it needs no M.
    if (of_units && piece == (needed == Needed::ButTheFirst ? p.pieces - 1 : 0))
      span.end = span.begin;
  }
  // Where a block's rows of a state begin: at zero, at those of the unit matrix, or as they enter.
  __device__ __forceinline__ void
  begin(const Problem& p, StateRows<D>& rows, const Lane& at) const {
    if (of_units) rows.set_units(part * DV, at);
    if (kChain == Chain::Piece) rows.load(p.starts + state_place(p) * D * D + part * DV * D, at);
    rows.round();
  }
  // Of an effect.
  __device__ __forceinline__ void
  end(const Problem& p, const StateRows<D>& rows, const Lane& at) const {
    rows.store(p.effects + (2 * state_place(p) + of_units) * D * D + part * DV * D, at);
  }
  // Of a chunk's first token.
  __device__ std::int64_t keys(const Problem& p, int2 chunk) const {
    return (static_cast<std::int64_t>(chunk.x) * p.heads_k + key_head) * D;
  }
  __device__ std::int64_t values(const Problem& p, int2 chunk) const {
    return (static_cast<std::int64_t>(chunk.x) * p.heads + head) * D + part * DV;
  }
  __device__ std::int64_t square(const Problem& p, int n) const { // of chunk and head
    return static_cast<std::int64_t>(n) * p.heads + head;
  }
  __device__ std::int64_t state(const Problem& p, int n) const { // of this part
    return square(p, n) * D * D + part * DV * D;
  }

private:
  static __device__ int taken(const Problem& p) { // pieces of a segment
    return kChain == Chain::Whole ? 1 : kChain == Chain::Piece ? p.pieces : p.pieces - 1;
  }
  __device__ std::int64_t state_place(const Problem& p) const {
    return (static_cast<std::int64_t>(segment) * p.heads + head) * p.pieces + piece;
  }
};

// A chunk's weights by token.
struct Factors {
  float enter[kChunk], leave[kChunk], rate[kChunk]; // 2^gamma, 2^{gamma_C - gamma}, beta
};

// Shared memory: what a chunk needs in `stages` places, each of kStage elements; the chunk's
// results on their way out; the factors of this chunk and the next.
template <int D, int DV, int kStage, int kStages> struct ChainMemory {
  static constexpr int key_stride = D + kPad, value_stride = DV + kPad, pair_stride = kChunk + kPad;
  static constexpr int stages = kStages, stage = kStage;
  static constexpr int state = stages * stage, values = state + DV * key_stride,
                       factors = values + DV * kChunk;
  static constexpr int bytes = 2 * factors + 2 * static_cast<int>(sizeof(Factors));
};

// Words of 16 bytes on and below the diagonal of 64 x 64 elements, by blocks of 16 x 16; of the
// transposed triangle with kTransposed.
template <bool kTransposed>
__device__ __forceinline__ void load_triangle(bf16* to, int stride, const bf16* from, int mover) {
#pragma unroll
  for (int i = 0; i < 10 * 32 / kMovers; ++i) {
    const int block = kMovers / 32 * i + mover / 32;
    const int below = (block >= 1) + (block >= 3) + (block >= 6),
              left = block - below * (below + 1) / 2;
    const int row = 16 * (kTransposed ? left : below) + mover % 32 / 2,
              column = 16 * (kTransposed ? below : left) + mover % 2 * 8;
    copy16(to + row * stride + column, from + row * kChunk + column, true);
  }
}

// The factors of a token: read early, written when the room is free.
struct FactorReader {
  float2 own{};
  float whole = 0;
  __device__ __forceinline__ void read(const float2* decay, int token) {
    own = decay[token], whole = decay[kChunk - 1].x;
  }
  __device__ __forceinline__ void write(Factors& to, int token) const {
    to.enter[token] = exp2_fast(own.x), to.leave[token] = exp2_fast(whole - own.x);
    to.rate[token] = own.y;
  }
};

// Values on their way out: a row for each value column, tokens in words of 8. Rows of 32 columns
// are ordered so that a transposing load gives a lane 8 neighbouring columns of a token, and words
// are exchanged so that neither side meets a bank conflict.
__device__ __forceinline__ int value_row(int column) {
  return column / 32 * 32 + column % 8 / 2 * 8 + column % 32 / 8 * 2 + column % 2;
}
__device__ __forceinline__ int value_place(int row, int token) {
  const int exchange = ((row / 8 ^ row / 2) & 3) * 2 + row % 2;
  return row * kChunk + (token / 8 ^ exchange) * 8 + token % 8;
}

// By a warp: x, the result rows 16 warp …, of a chunk's tokens.
__device__ __forceinline__ void put_values(bf16* values, const float (&x)[8][4], const Lane& at) {
  const int upper = value_row(16 * at.warp + at.r), lower = value_row(16 * at.warp + at.r + 8);
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int token = 8 * j + 2 * at.c;
    *reinterpret_cast<std::uint32_t*>(values + value_place(upper, token)) = pack2(x[j][0], x[j][1]);
    *reinterpret_cast<std::uint32_t*>(values + value_place(lower, token)) = pack2(x[j][2], x[j][3]);
  }
}

// By the movers, into rows of `stride` elements.
template <int DV>
__device__ __forceinline__ void
store_values(bf16* to, std::int64_t stride, const bf16* values, int exists, int mover) {
  const int lane = mover % 32;
#pragma unroll
  for (int i = 0; i < DV / 4 * 32 / kMovers; ++i) {
    const int unit = kMovers / 32 * i + mover / 32, token = unit % 8 * 8, column = unit / 8 * 32;
    std::uint32_t x[4];
    ldmatrix_t(x, values + value_place(column + lane, token));
    const int row = token + lane / 4;
    if (row < exists) store16(to + row * stride + column + lane % 4 * 8, x[0], x[1], x[2], x[3]);
  }
}

// By the movers: DV rows of S^T to [N, heads, D, D], values by keys.
template <int D, int DV>
__device__ __forceinline__ void store_state(bf16* to, const bf16* state, int mover) {
#pragma unroll
  for (int i = 0; i < D * DV / 8 / kMovers; ++i) {
    const int word = mover + i * kMovers;
    reinterpret_cast<uint4*>(to)[word] =
        *reinterpret_cast<const uint4*>(state + word / (D / 8) * (D + kPad) + word % (D / 8) * 8);
  }
}

} // namespace assay::delta_rule
