// What the kernels of the delta rule's inputs take. They turn the output of a layer's first
// product, a row per token of [q | k | v | gate | decay | rate], into what the rule takes. D is the
// head width, c a column of q, k, v, t a token:
//   s_tc = sum_j conv_cj x_{t-j,c} over the taps j that reach back no further than the segment
//   y = silu(s); of q and k also divided by sqrt(sum of y^2 over the head + 1e-6)
//   g = -exp(a_log) softplus(decay + dt_bias), beta = sigmoid(rate)
// bf16 between kernels, fp32 inside. No tap reaches into another segment, so another segment's
// values change no bit.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::delta_rule {

constexpr int kTaps = 4, kInputThreads = 64;
constexpr float kInputEps = 1e-6F; // as model/layers/rms_norm.h

// Everything on the device; contiguous but for the rows of `projected`, whose columns begin at
// multiples of 8 bytes.
struct RuleInputs {
  const bf16* projected; // [tokens], rows of 4 heads * D + 2 heads columns, `row` elements apart
  const float* conv;     // [3 heads * D, kTaps]: column j weighs the token j before
  const float* a_log;    // [heads]
  const float* dt_bias;  // [heads]
  const std::int32_t* position; // [tokens]: place in the segment, from 0
  bf16 *q, *k, *v;              // [tokens, heads, D], written
  float *g, *beta;              // [tokens, heads], written
  int tokens, heads, row;       // row is a multiple of 4
  int walk;                     // tokens that a block walks in order
};

struct RuleInputGradients {
  RuleInputs forward;       // its results are not read
  const bf16 *dq, *dk, *dv; // [tokens, heads, D]
  const float *dg, *d_beta; // [tokens, heads]
  bf16* d_projected;        // as `projected`, written but for the gate's columns
  float* partial_conv;  // [walks, 3 heads * D, kTaps], written: sums over the walk of each block
  float* partial_decay; // [walks, 2, heads], written: of a_log, of dt_bias
};

constexpr bool inputs_fit(std::int64_t width, std::int64_t heads, std::int64_t taps) {
  return (width == 32 || width == 64 || width == 128) && heads <= kInputThreads && taps == kTaps;
}

// Short walks fill the device, long ones read less beyond their ends; measured on an H200 at 12,288
// and 32,768 tokens.
constexpr int forward_walk(int tokens) {
  return tokens < 24576 ? 32 : 64;
}
constexpr int backward_walk(int tokens) {
  return 2 * forward_walk(tokens);
}
constexpr int walks_of(int tokens, int walk) {
  return (tokens + walk - 1) / walk;
}

} // namespace assay::delta_rule
