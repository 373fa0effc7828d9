// What the choice of blocks takes (kernels/nsa/select.h).
#pragma once

#include <cstdint>

#include "kernels/nsa/selected_attention/selected_problem.h"

namespace assay {

// The most selection blocks of one document: a lane remembers 64 choices.
constexpr std::int64_t kMaxSelectionBlocks = 2048;

// T queries, H heads in G groups, d wide, and Nc compressed keys. `lse` is that of attention over
// the compressed keys as nsa_strided.h arranges it: query t is the i-th of `stride` queries of
// position p with place = p stride + i, and has H heads there, head h at h stride + i.
struct SelectProblem {
  const void* q;                // [T, H, d]
  const void* k;                // [Nc, G, d]
  const float* lse;             // [H stride, Nc]: ln sum exp(scale q k) over what the query sees
  const std::int64_t* place;    // [T]; < 0: the query sees no compressed block
  const std::int64_t* first;    // [T]: first compressed block of the query's document ...
  const std::int64_t* end;      // [T]: ... and the end of those that it sees
  const std::int32_t* position; // [T]: place in the document
  std::int64_t* blocks;         // [T, G, n] out: ascending, counted from the document's start; -1
  ElementType type;             // of q and k: Bf16 or Fp16
  std::int64_t compressed;      // Nc
  int tokens, heads, groups, width;
  int stride;             // d of the paper: tokens between two compressed blocks
  int compressed_overlap; // l/stride
  int select_block;       // l', a multiple of the stride
  int count;              // n
  int most_keys;          // compressed blocks of one document
  int most_blocks;        // selection blocks of one document; <= kMaxSelectionBlocks
  float scale;
};

} // namespace assay
