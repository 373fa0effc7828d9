#include "model/layout/query_chunk.h"

namespace assay {

at::Tensor Intervals::visible(const QueryChunk& chunk) const {
  const at::Tensor key = at::arange(chunk.key_begin, chunk.key_end, first.options());
  const auto of_queries = [&](const at::Tensor& x) {
    return x.narrow(0, chunk.begin, chunk.queries()).unsqueeze(1);
  };
  return key.ge(of_queries(first)).logical_and_(key.lt(of_queries(end))).unsqueeze(0);
}

} // namespace assay
