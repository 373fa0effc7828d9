// What the kernels around the branches of native sparse attention take (kernels/nsa/inputs.h). A
// row of the product has, with d = 64 columns each,
//   q of H heads | k_cmp k_sel k_win | v_cmp v_sel v_win, each of G groups
// bf16 between kernels, fp32 inside. Places are those of model/nsa/nsa_strided.h: query t is the
// i-th of `stride` of position p with place[t] = p stride + i, its head h at h stride + i there.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::nsa {

constexpr int kWidth = 64;      // d
constexpr int kMostGate = 32;   // hidden width of the gates
constexpr int kMixBlocks = 264; // of the kernels of gates and mix, two an SM of an H200

// Everything contiguous, on the device, beginning at 16 bytes.
struct Inputs {
  const bf16* product;              // [T, (H + 6 G) d]
  const float* cos;                 // [T, d / 2]
  const float* sin;                 // [T, d / 2]
  const std::int64_t* place;        // [T]; < 0: none
  const std::int64_t* place_token;  // [Nc stride]: the inverse; < 0: no query
  const std::int64_t* block_tokens; // [Nc, length]
  bf16* q;                          // [T, H, d], written: rotated
  bf16* q_places;                   // [Nc, H stride, d], written: the same, 0 without a query
  float* mean;                      // [T, G, d], written: of the group's rotated queries
  bf16* branch[4];                  // [T, G, d], written: rotated k_sel, k_win; v_sel, v_win
  bf16* k_blocks;                   // [Nc, G, d], written: means of rotated k_cmp over the blocks
  bf16* v_blocks;                   // [Nc, G, d], written: means of v_cmp
  int tokens, heads, groups, blocks, length, stride;
};

// Gradients of what Inputs writes -> that of the product.
struct InputsBackward {
  const float* cos;
  const float* sin;
  const std::int64_t* place;
  const std::int64_t* token_blocks; // [length / stride, T]; >= blocks: none
  const bf16* d_q[2];               // [T, H, d]: from the selected and the window branch
  const bf16* d_q_places;           // [Nc, H stride, d]
  const float* d_mean;              // [T, G, d]
  const bf16* d_branch[4];          // [T, G, d]
  const bf16* d_blocks[2];          // [Nc, G, d]: of keys and values
  bf16* d_product;                  // [T, (H + 6 G) d], written
  int tokens, heads, groups, blocks, length, stride;
};

// g = softmax(silu(mean in^T + in_bias) out^T + out_bias); y = sum of g_c o_c.
struct Mix {
  const bf16* o_places;      // [Nc, H stride, d]: the compressed branch
  const bf16* o_selected;    // [T, H, d]
  const bf16* o_window;      // [T, H, d]
  const float* mean;         // [T, G, d]
  const float* in;           // [gate, d]
  const float* in_bias;      // [gate]
  const float* out;          // [3, gate]
  const float* out_bias;     // [3]
  const std::int64_t* place; // [T]; < 0: the compressed branch is 0
  bf16* y;                   // [T, H, d], written
  int tokens, heads, groups, stride, gate;
};

// A block's sums of the weights' gradients: of in, in_bias, out and out_bias, one behind the other:
// gate * kGateSums + 3 floats.
constexpr int kGateSums = kWidth + 1 + 3;

struct MixBackward {
  Mix forward;                     // y is not read
  const bf16* dy;                  // [T, H, d]
  const std::int64_t* place_token; // [Nc stride]
  bf16* d_places;                  // [Nc, H stride, d], written, 0 without a query
  bf16* d_selected;                // [T, H, d], written
  bf16* d_window;                  // [T, H, d], written
  float* d_mean;                   // [T, G, d], written
  float* partial;                  // [kMixBlocks, gate * kGateSums + 3], written
  int places;                      // Nc stride
};

} // namespace assay::nsa
