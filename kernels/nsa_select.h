// Choice of the blocks that a group of heads reads (NSA, arXiv 2502.11089, eq. 8-11) from the
// scores of its queries with the compressed keys: one warp per query and group.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

// The most selection blocks of one document: a lane remembers 64 choices.
constexpr std::int64_t kMaxSelectionBlocks = 2048;

// C queries, of the chunk whose keys are the compressed blocks [key_begin, key_begin + K).
struct SelectProblem {
  const float* scores;          // [G, H/G, C, K]: q k, before scaling
  const float* lse;             // [C, H]: ln sum exp(scale q k) over what the query sees
  const std::int64_t* first;    // [C]: first compressed block of the query's document ...
  const std::int64_t* end;      // [C]: ... and the end of those that it sees
  const std::int32_t* position; // [C]: place in the document
  std::int64_t* blocks;         // [C, G, n] out: ascending, counted from the document's start; -1
  std::int64_t queries, keys, key_begin;
  int groups, heads_per_group;
  int compressed_per_select; // l'/d
  int compressed_overlap;    // l/d
  int select_block;          // l'
  int count;                 // n
  int most_blocks;           // of one document; <= kMaxSelectionBlocks
  float scale;
};

// Whether a warp's shared memory has room for K probabilities and the scores of a document's
// blocks.
bool select_fits(std::int64_t keys, std::int64_t most_blocks);

// Asynchronous on `stream`. Refuses what does not fit.
cudaError_t launch_nsa_select(const SelectProblem& problem, cudaStream_t stream);

} // namespace assay
