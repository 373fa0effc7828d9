// Softmax attention in which every query sees its own set of keys, in plain tensor operations:
// queries are taken in chunks and the backward computes each chunk's probabilities again, so that
// scores of all pairs are never held.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/layout/query_chunk.h"

namespace assay {

struct ChunkedAttention {
  std::vector<QueryChunk> chunks; // cover the queries in order
  // bool [1 or G, queries, keys] of a chunk: which keys each query sees.
  std::function<at::Tensor(const QueryChunk&)> visible;
  double scale = 1;
};

// q [T, H, D], k [N, G, D], v [N, G, Dv] -> [T, H, Dv] in v's dtype: softmax(q k^T scale) v over
// the visible keys, 0 for a query that sees none. Heads g*H/G ... (g+1)*H/G - 1 read group g.
// Computes in fp64 when q is fp64, else in fp32, whatever autocast is. Hand-written backward,
// without atomics.
at::Tensor chunked_attention(const at::Tensor& q,
                             const at::Tensor& k,
                             const at::Tensor& v,
                             const std::shared_ptr<const ChunkedAttention>& plan);

// The probabilities alone, of one chunk: [G, H/G, queries, keys], in the compute type. No gradient.
at::Tensor chunk_probabilities(const at::Tensor& q,
                               const at::Tensor& k,
                               const QueryChunk& chunk,
                               const at::Tensor& visible,
                               double scale);

} // namespace assay
