// Gated delta rule, chunk form, forward and backward, for packed documents: bf16 in and out, sums
// in fp32, chunks of 64 tokens, head width D of 32, 64 or 128 (arXiv 2412.06464, section 3.3). Per
// chunk with entering state S, gamma the running sum of the log decay in units of log 2, L_ij =
// 2^{gamma_i - gamma_j} for i >= j, C the chunk's last token:
//   A = strictLower(diag(beta) K K^T * L)      T = (I + A)^{-1}
//   V' = T diag(beta) (V - 2^gamma K S)        S <- 2^{gamma_C} S + K^T (2^{gamma_C - gamma} V')
//   O = scale (2^gamma Q S + (Q K^T * L) V')
// Backward, from what the forward keeps, with dS+ the gradient of the state that leaves a chunk:
//   dV' = P^T dO + 2^{gamma_C-gamma} K dS+     P = scale (Q K^T * L)       dV = beta T^T dV'
//   dS  = 2^{gamma_C} dS+ + Q^T (scale 2^gamma dO) - K^T (2^gamma dV)
//   X = scale (dO V'^T * L),  Y = -strictLower(dV V'^T * L)
//   dQ = X K + scale 2^gamma dO S^T
//   dK = [X^T Q + 2^{gamma_C-gamma} V' dS+^T] + [Y K - 2^gamma dV S^T] + [Y^T K]    = k1 + k2 + k3
//   dgamma = q.dQ - k.k1 + k.k2 - k.k3 (a row);  dgamma_C += sum_i k_i.(2^{gamma_C-gamma}
//            V' dS+^T)_i + 2^{gamma_C} <S, dS+>
//   dg: sums of dgamma from the end;   dbeta = dV.V' / beta^2 (a row)
// Rows beyond a segment's end are zero with beta = 0 and g = 0: they change nothing. No chunk holds
// tokens of two segments, so another segment's values change no bit.
// A chunk's S -> S+ is affine, S+ = M S + B. So few and long chains are cut into pieces: first each
// piece alone, side by side, from zero (which gives its B) and from unit states (its M), then the
// states that enter them, then the pieces as they are, side by side again; dS+ the same backwards.
#pragma once

#include "kernels/bf16.h"

struct int2; // CUDA's
struct float2;

namespace assay::delta_rule {

constexpr int kChunk = 64;

// Everything contiguous and on the device. T tokens, N chunks.
struct Problem {
  const bf16 *q, *k; // [T, heads_k, D]; k of length 1, q unscaled
  const bf16* v;     // [T, heads, D]
  const float* g;    // [T, heads], log decay (natural), <= 0
  const float* beta; // [T, heads], 0 ... 1
  // [N + 1 where the last segments are empty, else N]: first token, tokens; the chunks of a segment
  // follow one another. Chunks of no token, which belong to no segment, change nothing.
  const int2* chunk;
  const int* first; // [segments + 1]: first chunk of each segment; longest segment first is fastest
  float2* decay;    // [N, heads, 64], written: gamma, beta
  bf16* inverse;    // [N, heads, 64, 64], written on and above the diagonal's blocks: T transposed
  bf16* scores;     // [N, heads, 64, 64], written on and below the diagonal's blocks: P
  bf16* update;     // [T, heads, D], written: V'
  bf16* states;     // [N, heads, D, D], written: S entering, transposed: values by keys
  bf16* out;        // [T, heads, D], written
  int heads_k, heads; // heads is a multiple of heads_k
  int chunks, segments;
  float scale; // of the scores; 1 / sqrt(D)
  // Of every segment, equal by chunks; room for what they do to a state, B and M, and for the
  // states that enter them, transposed like all states; both only where there are several.
  int pieces = 1;
  float* effects = nullptr; // [segments, heads, pieces, 2, D, D]
  float* starts = nullptr;  // [segments, heads, pieces, D, D]
};

struct Gradients {
  Problem problem;    // inputs and what the forward wrote
  const bf16* d_out;  // [T, heads, D]
  bf16* d_states;     // [N, heads, D, D], written: dS+, transposed
  bf16 *dq, *dk;      // [T, heads_k, D], written
  bf16* dv;           // [T, heads, D], written
  float *dg, *d_beta; // [T, heads], written
};

} // namespace assay::delta_rule
