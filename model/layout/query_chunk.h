// Chunks of queries and the keys that each query sees, as borders of packed documents give them.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>

namespace assay {

// Queries [begin, end), none of which sees a key outside [key_begin, key_end). `index`: place in
// the list of chunks.
struct QueryChunk {
  std::size_t index;
  std::int64_t begin, end, key_begin, key_end;

  std::int64_t queries() const { return end - begin; }
  std::int64_t keys() const { return key_end - key_begin; }
};

// Query t sees the keys first[t] <= key < end[t]; int64 [T] both.
struct Intervals {
  at::Tensor first, end;

  at::Tensor visible(const QueryChunk& chunk) const; // bool [1, queries, keys]
};

} // namespace assay
