// RWKV-6 (arXiv 2404.05892, section 4.2) and Mamba-2's SSD (arXiv 2405.21060, section 6), chunk
// form, forward and backward, for packed documents: bf16 in and out, sums in fp32, chunks of 64
// tokens, 64 values a head.
//   RWKV-6:  o_t = (S + (u k_t) v_t^T)^T r_t     S <- diag(e^{w_t}) S + k_t v_t^T     S [64, 64]
//   SSD:     S <- e^{a_t} S + b_t x_t^T          y_t = S^T c_t                        S [N, 64]
// States are kept twice: in fp32 along a segment, in bf16 [chunks, heads, keys, 64] for products.
// What a chunk adds to the state is rounded to bf16 before it is added, so that the chain may run
// inside one kernel (many segments) or over what all chunks computed at once (few long segments):
// the same bits either way. No chunk holds tokens of two segments, so another segment's values
// change no bit.
#pragma once

#include "kernels/bf16.h"

struct int2; // CUDA's

namespace assay::scan {

constexpr int kChunk = 64; // tokens
constexpr int kWidth = 64; // values of a head; keys of RWKV-6

// Segments, the longest first is fastest; chunk n of a segment follows chunk n - 1 in memory.
struct ChunkTable {
  // [chunks + 1 where the last segments are empty, else chunks]: first token, tokens. Chunks of no
  // token, which belong to no segment, change nothing.
  const int2* chunk;
  const int* first; // [segments + 1]: first chunk; null: every chunk is a segment of its own
  int chunks, segments, heads;
  // [segments]: a segment's state begins as begin[slot.x] and ends in end[slot.y], -1: as zeros,
  // and nowhere. Null: so for all.
  const int2* slot = nullptr;
};

// Everything contiguous and on the device. T tokens; states [chunks, heads, keys, 64].
struct Rwkv6 {
  ChunkTable at;
  const bf16 *r, *k, *v;        // [T, heads, 64]
  const bf16* w;                // [T, heads, 64]: log decay, <= 0
  const float* u;               // [heads, 64]
  bf16* states;                 // written: S entering each chunk
  bf16* out;                    // [T, heads, 64], written
  float* decay;                 // [chunks, heads, 64]: room, used where few chains are long
  const float* begin = nullptr; // [slots, heads, 64, 64]
  float* end = nullptr;
};

struct Rwkv6Gradients {
  Rwkv6 problem;           // inputs and what the forward wrote
  const bf16* d_out;       // [T, heads, 64]
  bf16* d_states;          // written: gradient of the state that leaves each chunk
  bf16 *dr, *dk, *dv, *dw; // [T, heads, 64], written
  float* du_parts;         // [chunks, heads, 64]: room
  float* du;               // [heads, 64], written
  const float* d_end =
      nullptr; // [slots, heads, 64, 64]: of the last states; slot.x names the place
  float* d_begin = nullptr;
};

struct Ssd {
  ChunkTable at;
  const bf16* x;                // [T, heads, 64]
  const float* a;               // [T, heads]: log decay, <= 0
  const bf16 *b, *c;            // [T, groups, N], N 64 or 128
  bf16* states;                 // written: S entering each chunk
  bf16* out;                    // [T, heads, 64], written
  float* decay;                 // [chunks, heads]: room, used where few chains are long
  int groups;                   // divides heads
  const float* begin = nullptr; // [slots, heads, N, 64]
  float* end = nullptr;
};

struct SsdGradients {
  Ssd problem;                  // inputs and what the forward wrote
  const bf16* d_out;            // [T, heads, 64]
  bf16* d_states;               // written: gradient of the state that leaves each chunk
  bf16* dx;                     // [T, heads, 64], written
  float* da;                    // [T, heads], written
  bf16 *db, *dc;                // [T, groups, N], written
  const float* d_end = nullptr; // [slots, heads, N, 64]
  float* d_begin = nullptr;
};

} // namespace assay::scan
