// Batch: packed documents as the trainer takes them, with the borders that document isolation
// needs.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace assay {

struct ChunkLayout; // model/layout/segments.h: how the gated delta rule cuts these segments into
                    // chunks
struct NsaLayout;   // model/layout/nsa_layout.h: the blocks of native sparse attention in these
                    // segments

// Consecutive spans of the flattened [B*T] token axis that may not see each other.
struct Segments {
  std::vector<std::int32_t> cu_host; // cumulative ends, [N+1], from 0 to B*T
  at::Tensor cu;                     // the same on the batch's device, int32 [N+1]
  std::int64_t max_len = 0;
  std::shared_ptr<const ChunkLayout> chunks; // filled by prepare(); null until then
  std::shared_ptr<const NsaLayout> sparse;   // likewise, in family nsa only
};

struct Batch {
  at::Tensor tokens;  // int64 [B, T]
  at::Tensor targets; // int64 [B, T]; every position has one: the next token of its own document
  Segments rows;      // every row is one segment
  Segments documents; // every document (or the part of it that lies in a row) is one segment
  std::int64_t bytes = 0; // of the target text, for bits per byte

  std::int64_t token_count() const { return tokens.numel(); }
};

} // namespace assay
