// What both recurrences hand to kernels/scan.
#pragma once

#include <ATen/ATen.h>

#include "kernels/scan/scan.h"
#include "model/layout/chunk_layout.h"

namespace assay {

inline scan::ChunkTable chunk_table(const ChunkLayout& layout, std::int64_t heads) {
  return {.chunk = static_cast<const int2*>(layout.spans.const_data_ptr()),
          .first = layout.segment_chunks.const_data_ptr<std::int32_t>(),
          .chunks = static_cast<int>(layout.chunks),
          .segments = static_cast<int>(layout.segment_chunks.size(0) - 1),
          .heads = static_cast<int>(heads)};
}

// A state for each chunk, as the kernels keep it: [chunks, heads, keys, 64] in x's dtype.
inline at::Tensor chunk_states(const at::Tensor& x,
                               const ChunkLayout& layout,
                               std::int64_t heads,
                               std::int64_t keys) {
  return at::empty({layout.chunks, heads, keys, scan::kWidth}, x.options());
}

} // namespace assay
