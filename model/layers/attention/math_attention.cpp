#include "model/layers/attention/math_attention.h"

#include <algorithm>
#include <memory>

#include "core/span.h"
#include "model/layers/attention/chunked_attention.h"

namespace assay {

namespace {

constexpr std::int64_t kQueries = 512; // of a chunk

// A query sees the keys from its segment's first to itself.
std::vector<QueryChunk> causal_chunks(const std::vector<std::int32_t>& cu) {
  std::vector<QueryChunk> chunks;
  for (std::size_t i = 1; i < cu.size(); ++i)
    for (std::int64_t begin = cu[i - 1]; begin < cu[i]; begin += kQueries) {
      const std::int64_t end = std::min<std::int64_t>(begin + kQueries, cu[i]);
      chunks.push_back({chunks.size(), begin, end, cu[i - 1], end});
    }
  return chunks;
}

} // namespace

at::Tensor math_attention(const at::Tensor& q,
                          const at::Tensor& k,
                          const at::Tensor& v,
                          const Segments& segments,
                          double scale) {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).device(q.device());
  const auto plan = std::make_shared<ChunkedAttention>();
  plan->chunks = causal_chunks(segments.cu_host);
  plan->visible = [options](const QueryChunk& chunk) {
    return at::arange(chunk.key_begin, chunk.key_end, options)
        .le(at::arange(chunk.begin, chunk.end, options).unsqueeze(1))
        .unsqueeze(0);
  };
  plan->scale = scale;
  count("kernel/math", static_cast<std::int64_t>(plan->chunks.size()));
  return chunked_attention(q, k, v, plan);
}

} // namespace assay
