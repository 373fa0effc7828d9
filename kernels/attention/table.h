// The table of a call over packed documents, as cuDNN's ragged tensors take it.
#pragma once

#include <cstdint>

namespace assay::cudnn_plans {

// Tensors whose documents begin at the same elements share a kind.
// Queries and keys, joined values too; results, and values on their own; statistics.
enum Kind { kWideQk, kWideV, kStats, kKinds };

// lengths: int32 [documents]. offsets: of each kind, int64 [documents + 1], the first element of
// every document and the end. Device memory, parts of 256 bytes.
struct Table {
  std::int32_t* lengths = nullptr;
  std::int64_t* offsets[kKinds] = {};
  std::int64_t token[kKinds] = {}; // elements from one token to the next
  std::int64_t documents = 0, bytes = 0;
};

} // namespace assay::cudnn_plans
