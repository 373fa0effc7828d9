// Batch: documents in rows as the trainer takes them, with the borders that document isolation
// needs.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace assay {

struct ChunkLayout; // model/layout/chunk_layout.h: chunks of the gated delta rule
struct Rotary;      // model/layout/positions.h: rotary angles
class Carry;        // model/layout/carry.h: one sequence in pieces
struct NsaLayout;   // model/layout/nsa_layout.h: blocks of native sparse attention

// Consecutive spans of the flattened [B*T] token axis that may not see each other.
struct Segments {
  std::vector<std::int32_t> cu_host; // cumulative ends, [N+1], from 0 to B*T
  at::Tensor cu;                     // the same on the batch's device, int32 [N+1]
  std::int64_t max_len = 0;
  // Filled by prepare() where a layer of the configuration needs them, else null or undefined.
  std::shared_ptr<const ChunkLayout> chunks;
  std::shared_ptr<const Rotary> rotary;
  std::shared_ptr<const NsaLayout> sparse;
  at::Tensor positions; // int64 [T], from first_position in each segment
  // One segment that goes on where the piece before it ended; null: each begins anew.
  std::shared_ptr<Carry> carry = nullptr;
  std::int64_t first_position = 0; // of every segment: tokens in the pieces before it
  at::Tensor causal_mask;          // fp32 [L, L], 0 and -inf, where all segments have one length L

  std::int64_t count() const { return static_cast<std::int64_t>(cu_host.size()) - 1; }
};

struct Batch {
  at::Tensor tokens;        // int64 [B, T]
  at::Tensor targets;       // int64 [B, T]: the next token of the same document; -100 in padding
  Segments rows;            // every row is one segment
  Segments documents;       // every document (or its part within a row) is one segment
  std::int64_t bytes = 0;   // of the target text, for bits per byte
  std::int64_t padding = 0; // positions without a target

  std::int64_t token_count() const { return tokens.numel() - padding; } // that have a loss
};

} // namespace assay
