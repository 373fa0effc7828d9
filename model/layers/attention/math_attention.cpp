#include "model/layers/attention/math_attention.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/span.h"
#include "model/layers/attention/chunked_attention.h"

namespace assay {

namespace {

constexpr std::int64_t kQueries = 512;                         // of a chunk, at most
constexpr std::int64_t kCarriedScores = std::int64_t{1} << 26; // of a chunk with keys of a carry

// Queries of one segment, [begin, end), of which the first is behind `before` keys that start at
// `first_key`: a query sees the keys from there to itself.
void add_chunks(std::vector<QueryChunk>& chunks,
                std::int64_t begin,
                std::int64_t end,
                std::int64_t first_key,
                std::int64_t before,
                std::int64_t queries = kQueries) {
  for (std::int64_t from = begin; from < end; from += queries) {
    const std::int64_t to = std::min(from + queries, end);
    chunks.push_back({chunks.size(), from, to, first_key, first_key + before + to - begin});
  }
}

at::Tensor causal_attention_in_chunks(const at::Tensor& q,
                                      const at::Tensor& k,
                                      const at::Tensor& v,
                                      std::vector<QueryChunk> chunks,
                                      double scale) {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(q.device());
  const auto plan = std::make_shared<ChunkedAttention>();
  plan->chunks = std::move(chunks);
  plan->visible = [options](const QueryChunk& chunk) {
    const std::int64_t last = chunk.key_end - 1; // that of the last query
    return at::arange(chunk.key_begin, chunk.key_end, options)
        .le(at::arange(last + 1 - chunk.queries(), last + 1, options).unsqueeze(1))
        .unsqueeze(0);
  };
  plan->scale = scale;
  count("kernel/math", static_cast<std::int64_t>(plan->chunks.size()));
  return chunked_attention(q, k, v, plan);
}

} // namespace

at::Tensor math_attention(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const Segments& segments,
                          double scale) {
  std::vector<QueryChunk> chunks;
  const std::vector<std::int32_t>& cu = segments.cu_host;
  for (std::size_t i = 1; i < cu.size(); ++i) add_chunks(chunks, cu[i - 1], cu[i], cu[i - 1], 0);
  return causal_attention_in_chunks(q, k, v, std::move(chunks), scale);
}

at::Tensor
carried_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale) {
  std::vector<QueryChunk> chunks;
  const std::int64_t keys = k.size(0), room = kCarriedScores / (keys * q.size(1));
  add_chunks(
      chunks, 0, q.size(0), 0, keys - q.size(0), std::clamp<std::int64_t>(room, 1, kQueries));
  return causal_attention_in_chunks(q, k, v, std::move(chunks), scale);
}

} // namespace assay
