#include "model/config/shapes/nsa_shape.h"

#include <algorithm>

namespace assay {

namespace {

// Keys of the query at position t, by branch.
struct QueryKeys {
  std::int64_t compressed = 0, selected = 0, window = 0;
};

QueryKeys keys_of(const NsaShape& shape, std::int64_t t) {
  QueryKeys keys;
  if (t + 1 >= shape.block) keys.compressed = (t + 1 - shape.block) / shape.stride + 1;
  // The own block is always selected and is read up to the query itself.
  const std::int64_t earlier = std::min(t / shape.select_block, shape.select_count - 1);
  keys.selected = earlier * shape.select_block + t % shape.select_block + 1;
  keys.window = std::min(t + 1, shape.window);
  return keys;
}

} // namespace

NsaShape nsa_shape(const TrainConfig& c) {
  return {c.nsa_block,
          c.nsa_stride,
          c.nsa_select_block,
          c.nsa_select_count,
          c.nsa_window,
          c.nsa_overlap == NsaOverlap::Scatter};
}

bool needs_nsa_operators(const TrainConfig& c) {
  return c.nsa_form != NsaForm::Batched || c.nsa_overlap != NsaOverlap::Product ||
         c.nsa_stats != NsaStats::Off;
}

NsaKeys nsa_keys(const NsaShape& shape, std::int64_t length) {
  QueryKeys sum;
  for (std::int64_t t = 0; t < length; ++t) {
    const QueryKeys keys = keys_of(shape, t);
    sum.compressed += keys.compressed;
    sum.selected += keys.selected;
    sum.window += keys.window;
  }
  const double queries = static_cast<double>(length);
  return {static_cast<double>(sum.compressed) / queries,
          static_cast<double>(sum.selected) / queries,
          static_cast<double>(sum.window) / queries};
}

std::optional<std::int64_t> nsa_crossover(const NsaShape& shape, std::int64_t limit) {
  std::int64_t sparse = 0, dense = 0;
  for (std::int64_t t = 0; t < limit; ++t) {
    const QueryKeys keys = keys_of(shape, t);
    sparse += keys.compressed + keys.selected + keys.window;
    dense += t + 1;
    if (sparse < dense) return t + 1;
  }
  return std::nullopt;
}

} // namespace assay
