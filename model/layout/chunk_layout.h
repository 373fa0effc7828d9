// How recurrences over chunks (the gated delta rule, RWKV-6, Mamba-2) and their short convolution
// read the segments of a batch.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// T tokens, H heads, C tokens a chunk, N chunks. Segments are sorted by length, longest first, and
// chunks are ordered step-major: the first chunk of every segment, then the second chunks …, so
// that scan step s works on a contiguous slice and its successor on a prefix of that slice. A chunk
// never straddles two segments; a slot without a token
// ("dead") repeats a token of its own segment and is made a no-op (k = 0, beta = 0, g = 0).
struct ChunkLayout {
  std::int64_t tokens = 0, heads = 0, chunk = 0, chunks = 0;
  std::vector<std::int64_t> step_chunks; // chunks in scan step s; never increases
  at::Tensor gather;                     // int64 [N*H*C]: row t*H + h that feeds slot (n, h, c)
  at::Tensor scatter;                    // int64 [T*H]: slot (n*H + h)*C + c that holds row (t, h)
  at::Tensor dead;                       // bool [N*H, C, 1]; undefined when every slot has a token
  at::Tensor spans;                      // int32 [N, 2]: first token, tokens; segment after segment
  at::Tensor segment_chunks;             // int32 [segments+1]: first of `spans` of each segment
  at::Tensor above;                      // bool [C, C]: strictly above the diagonal
  at::Tensor position;                   // int32 [T]: place in the segment, from 0
  at::Tensor
      taps; // fp32 [conv_kernel-1, T, 1]: taps[j-1][t] = 1 where token t-j lies in the segment of t
  bool always_taps = false; // layers read taps in their fused forms too
};

// On the device of `segments.cu`.
ChunkLayout make_chunk_layout(const Segments& segments, const TrainConfig& config);

} // namespace assay
