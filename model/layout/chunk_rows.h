// Tokens of packed documents to batches of chunks and back, as ChunkLayout orders them: R = N*H
// batches of C tokens, step-major.
#pragma once

#include <ATen/ATen.h>

#include "model/layout/chunk_layout.h"

namespace assay {

// [T, H, D] -> [R, C, D] in the compute type.
inline at::Tensor to_chunks(const at::Tensor& x, const ChunkLayout& layout, at::ScalarType type) {
  const std::int64_t width = x.size(2);
  return x.reshape({layout.tokens * layout.heads, width})
      .index_select(0, layout.gather)
      .to(type)
      .view({layout.chunks * layout.heads, layout.chunk, width});
}

// The same, with dead slots set to 0.
inline at::Tensor
to_masked_chunks(const at::Tensor& x, const ChunkLayout& layout, at::ScalarType type) {
  at::Tensor chunks = to_chunks(x, layout, type);
  if (layout.dead.defined()) chunks.masked_fill_(layout.dead, 0);
  return chunks;
}

// [R, C, D] -> [T, H, D] in `type`.
inline at::Tensor to_tokens(const at::Tensor& x, const ChunkLayout& layout, at::ScalarType type) {
  const std::int64_t width = x.size(2);
  return x.reshape({x.size(0) * x.size(1), width})
      .index_select(0, layout.scatter)
      .view({layout.tokens, layout.heads, width})
      .to(type);
}

} // namespace assay
