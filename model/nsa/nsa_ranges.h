// From selected key blocks to token ranges, in three forms of one result (the levels of
// `nsa_ranges`). Block b of length l' covers the tokens [b l', (b+1) l') of a query's own document
// (arXiv 2502.11089, section 3.3.2).
//
// All forms: `blocks` int64 [B, S, G, n], in any order, possibly repeated; an index < 0, or of a
// block that begins after the query, is unused. `positions` int32 [B, S] is t, the query's place in
// its document; undefined: its place in the row. The result is canonical, int32 [B, S, G, n, 2]:
// [start, end) ascending, neither overlapping nor touching, clamped to t + 1; unused slots are
// (0, 0) and last.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace assay {

// v1: a host loop over B, S and G that reads every index by itself: on a GPU B S G n
// synchronizations.
at::Tensor
ranges_looped(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions = {});

// v2a: sort, run detection, cumulative sum, scatter-max into n fixed slots. No synchronization.
at::Tensor
ranges_tensor(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions = {});

// v2b: one CUDA kernel, n <= 32; on the CPU one parallel loop over the same memory.
at::Tensor
ranges_kernel(const at::Tensor& blocks, std::int64_t block_size, const at::Tensor& positions = {});

} // namespace assay
