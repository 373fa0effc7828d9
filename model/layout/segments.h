// Borders of packed documents in the form that every layer needs: the chunks of the gated delta
// rule, the taps of the short convolution that stay inside a segment, and rotary angles that
// restart with it. Built once per batch, untimed.
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
  at::Tensor above;                      // bool [C, C]: strictly above the diagonal
  at::Tensor
      taps; // fp32 [conv_kernel-1, T, 1]: taps[j-1][t] = 1 where token t-j lies in the segment of t
  at::Tensor rope_cos, rope_sin; // fp32 [T, 1, rope_dim/2], position 0 at each segment's start
  at::Tensor
      causal_mask; // fp32 [L, L], 0 and -inf; only where all segments have one length L (rows)
};

// Puts the batch on the config's device and fills its segments' chunks and max_len. Needs a
// resolved config.
void prepare(Batch& batch, const TrainConfig& config);

// Borders without layouts, `cu` on `device`. cu_host: cumulative ends, from 0.
Segments segments_of(std::vector<std::int32_t> cu_host, at::Device device);

// The layout of segments that end at `cu` (cumulative, from 0), on `device`.
ChunkLayout make_chunk_layout(const std::vector<std::int32_t>& cu,
                              const TrainConfig& config,
                              at::Device device);

// An unprepared CPU batch of [B, T] tokens whose documents end at `cu_documents`; row ends are
// added as borders.
Batch make_batch(at::Tensor tokens, at::Tensor targets, std::vector<std::int32_t> cu_documents);

at::Device torch_device(Device device); // Cuda: the current board

} // namespace assay
