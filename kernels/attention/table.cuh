// Lengths and offsets of packed documents from their borders.
#pragma once

#include "kernels/attention/table.h"
#include "kernels/simt.cuh"

namespace assay::cudnn_plans {

constexpr unsigned kTableThreads = 128;

// A thread per document and one for the end. cu: int32 [given + 1].
__global__ void fill_table(const std::int32_t* cu, std::int64_t given, Table table) {
  const std::int64_t i = std::int64_t{simt::block_index()} * kTableThreads + simt::thread_index();
  if (i > table.documents) return;
  const std::int64_t first = cu[i < given ? i : given];
  if (i < table.documents)
    table.lengths[i] = i < given ? static_cast<std::int32_t>(cu[i + 1] - first) : 0;
  for (int kind = 0; kind < kKinds; ++kind) table.offsets[kind][i] = first * table.token[kind];
}

} // namespace assay::cudnn_plans
