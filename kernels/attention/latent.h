// What the kernels around the products of latent attention take. H heads of `plain` columns without
// position and `rope` rotary ones; a row per token of
//   q [H, plain + rope]      down [rank latent | rope]      up [H, plain key | plain value]
// rope() rotates neighbouring pairs: (a, b) -> (a cos - b sin, b cos + a sin). The inputs of
// attention are
//   latent = down / sqrt(mean(down^2) + 1e-6) * weight over the `rank` columns; up is made of it
//   q with its rotary columns rotated, in place      k = [key of up | rope(rotary key)], v: in up
// bf16 between kernels, fp32 inside. A token's results depend on that token alone.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::latent {

constexpr float kEps = 1e-6F;     // as model/layers/rms_norm.h
constexpr int kPartialRows = 528; // blocks of the norm's backward kernel, four per SM of an H200
constexpr int kMostRank = 1024;

// Everything on the device, contiguous unless strides are named; rows begin at 16 bytes.
struct Norm {
  const bf16* down;    // [tokens, rank + rope], rows `stride` apart
  const float* weight; // [rank]
  bf16* latent;        // [tokens, rank], written
  int tokens, rank, stride;
};

// With u = x r: d_down = [r (w dy - u mean(u w dy)) | d_key].
struct NormBackward {
  Norm forward;         // latent is not read
  const bf16* d_latent; // [tokens, rank]
  const bf16* d_key;    // [tokens, rope]
  bf16* d_down;         // [tokens, rank + rope], written
  float* partial;       // [kPartialRows, rank], written: sums of the weight's gradient
  int rope;
};

constexpr bool rank_fits(std::int64_t rank) {
  return rank % 8 == 0 && rank >= 8 && rank <= kMostRank;
}

struct Heads {
  bf16* q;          // [tokens, H, plain + rope], rotary columns read and written
  const bf16* up;   // [tokens, H, 2 plain]
  const bf16* key;  // [tokens, rope], rows `key_stride` apart: the rotary key, not yet rotated
  const float* cos; // [tokens, rope / 2]
  const float* sin; // [tokens, rope / 2]
  bf16* k;          // [tokens, H, plain + rope], written
  int tokens, heads, plain, rope, key_stride;
};

// Of the same shapes: d_up = [dk without position | dv], d_key = sum over heads of dk's rotary
// columns; these and dq's are rotated back.
struct HeadsBackward {
  bf16* dq;         // [tokens, H, plain + rope], rotary columns read and written
  const bf16* dk;   // [tokens, H, plain + rope]
  const bf16* dv;   // [tokens, H, plain], heads `dv_head`, tokens `dv_token` elements apart
  const float* cos; // [tokens, rope / 2]
  const float* sin; // [tokens, rope / 2]
  bf16* d_up;       // [tokens, H, 2 plain], written
  bf16* d_key;      // [tokens, rope], written
  int tokens, heads, plain, rope;
  std::int64_t dv_head, dv_token;
};

// Lanes share a token's rotary columns evenly, eight to a lane.
constexpr bool heads_fit(std::int64_t plain, std::int64_t rope) {
  return plain % 8 == 0 && plain >= 8 && rope >= 8 && rope <= 256 && (rope & (rope - 1)) == 0;
}

} // namespace assay::latent
