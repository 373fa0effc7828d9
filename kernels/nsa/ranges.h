// Selected block indices to canonical token ranges, one warp per query and group.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

// The most indices of one query and group: a lane holds one.
constexpr int kMaxSelectedBlocks = 32;

struct RangesProblem {
  const std::int64_t* blocks;    // [rows, tokens, groups, selected]; < 0: unused; may repeat
  const std::int32_t* positions; // [rows, tokens]: t of each query; null: its place in the row
  std::int32_t* ranges;          // [rows, tokens, groups, selected, 2], every element is written
  std::int64_t rows, tokens, groups;
  int selected; // <= kMaxSelectedBlocks
  int block_size;
};

// Asynchronous on `stream`; the caller checks cudaGetLastError().
void launch_nsa_ranges(const RangesProblem& problem, cudaStream_t stream);

} // namespace assay
