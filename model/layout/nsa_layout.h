// Positions of the blocks of native sparse attention in packed documents. Compressed blocks and
// selection blocks are numbered document after document; what a query may see of either is one
// interval of such numbers. Built once per batch, untimed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/shapes/nsa_shape.h"
#include "model/config/train_config.h"
#include "model/layout/batch.h"
#include "model/layout/query_chunk.h"

namespace assay {

// T tokens, Nc compressed blocks (whole ones only: l tokens of one document), Ns selection blocks
// (a document's last may be shorter than l').
struct NsaLayout {
  NsaShape shape;
  Segments documents; // without layouts
  std::int64_t tokens = 0, compressed_blocks = 0, selection_blocks = 0;

  at::Tensor document_start; // int32 [T]: first token of each token's document
  at::Tensor position;       // int32 [T]: place in the document
  at::Tensor token_block;    // int64 [T]: selection block of the token
  Intervals compressed;      // compressed blocks that end at or before each query
  Intervals selection;       // selection blocks that begin at or before it
  Intervals window;          // tokens max(document start, t - w + 1) ... t

  // A query sees one compressed block more for every d tokens. So d consecutive queries, beginning
  // with the first that sees one, are one position of causal attention over compressed blocks, with
  // d times the heads; a document has as many positions as compressed blocks.
  Segments compressed_documents; // borders in compressed blocks; documents without one left out
  at::Tensor strided_token;      // int64 [Nc*d]: token of each place; -1 after the document's end
  at::Tensor strided_place;      // int64 [T]: the inverse; -1: the query sees no block

  at::Tensor block_tokens; // int64 [Nc*l]: tokens of each compressed block
  at::Tensor token_blocks; // int64 [l/d, T]: compressed blocks of each token; Nc: none
  // M of eq. 9, block-diagonal over the documents, fp32 [Nc, Ns]: how many pairs (m, n) with
  // 0 <= m < l'/d, 0 <= n < l/d have i = (l'/d) j + m - n. That is the tokens which compressed
  // block i and selection block j share, over d.
  at::Tensor overlap;
  // With shape.overlap_pairs: M's cells that are not 0, by selection block and then compressed
  // block, int64 [P] each and fp32 [P]; those of selection block j begin at pair_begin[j], Ns + 1
  // numbers on the host.
  at::Tensor pair_compressed, pair_selection, pair_weight;
  std::vector<std::int64_t> pair_begin;

  // Queries are taken in chunks, so that scores are never held for all pairs; of each chunk's
  // queries the widest range of compressed blocks, selection blocks and tokens of the window that
  // any of them may see.
  std::vector<QueryChunk> compressed_chunks, selection_chunks, window_chunks;
};

inline constexpr std::int64_t kNsaQueryChunk = 512;
// A GPU waits for launches rather than for masked pairs.
inline constexpr std::int64_t kNsaQueryChunkCuda = 2048;

// Of the documents in `borders` (its layouts are not read), on the device of its `cu`.
NsaLayout make_nsa_layout(const Segments& borders,
                          const NsaShape& shape,
                          std::int64_t query_chunk,
                          BatchCopy copy = BatchCopy::Pageable);

} // namespace assay
