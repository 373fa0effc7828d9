// Block geometry of native sparse attention (NSA, arXiv 2502.11089, section 3.3) and how many keys
// a query then reads: what the cost model and the crossover with dense attention are computed from.
#pragma once

#include <cstdint>
#include <optional>

#include "model/config/train_config.h"

namespace assay {

// All in tokens but select_count. The stride divides both block lengths.
struct NsaShape {
  std::int64_t block = 0;        // l: tokens that a compressed block averages
  std::int64_t stride = 0;       // d: distance of two compressed blocks
  std::int64_t select_block = 0; // l': tokens of a selected block
  std::int64_t select_count = 0; // n: blocks that a query selects, forced ones included
  std::int64_t window = 0;       // w: tokens of the sliding window, the query's own included
  bool overlap_pairs = false;    // nsa_overlap = scatter: layouts list the pairs of blocks
};

// Blocks that are always among the selected: the document's first, the query's own and the one
// before it (section 4.1 of the paper).
constexpr std::int64_t kNsaForcedBlocks = 3;

NsaShape nsa_shape(const TrainConfig& config);

// Whether a key asks for what only the operators around the branches have, not `nsa_inputs =
// fused`.
bool needs_nsa_operators(const TrainConfig& config);

// Keys that a query reads, by branch: means over the queries of one document of `length` tokens.
// Dense causal attention reads (length + 1) / 2.
struct NsaKeys {
  double compressed = 0, selected = 0, window = 0;

  double total() const { return compressed + selected + window; }
};
NsaKeys nsa_keys(const NsaShape& shape, std::int64_t length);

// The shortest document for which sparse attention reads fewer keys than dense attention; nothing
// up to `limit` tokens.
std::optional<std::int64_t> nsa_crossover(const NsaShape& shape,
                                          std::int64_t limit = std::int64_t{1} << 20);

} // namespace assay
