#include "model/config/nsa_shape.h"

#include <algorithm>

namespace assay {

NsaShape nsa_shape(const TrainConfig& c) {
  return {c.nsa_block, c.nsa_stride, c.nsa_select_block, c.nsa_select_count, c.nsa_window};
}

NsaKeys nsa_keys(const NsaShape& shape, std::int64_t length) {
  std::int64_t compressed = 0, selected = 0, window = 0;
  for (std::int64_t t = 0; t < length; ++t) {
    if (t + 1 >= shape.block) compressed += (t + 1 - shape.block) / shape.stride + 1;
    // The own block is always selected and is read up to the query itself.
    const std::int64_t earlier = std::min(t / shape.select_block, shape.select_count - 1);
    selected += earlier * shape.select_block + t % shape.select_block + 1;
    window += std::min(t + 1, shape.window);
  }
  const double queries = static_cast<double>(length);
  return {static_cast<double>(compressed) / queries,
          static_cast<double>(selected) / queries,
          static_cast<double>(window) / queries};
}

} // namespace assay
