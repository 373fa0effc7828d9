// What follows from the keys of family `hydra`, for its sizes, its cost and its layers.
#pragma once

#include <cstddef>

#include "model/config/train_config.h"

namespace assay {

inline constexpr std::int64_t kHydraTaps = 3; // tokens that a convolution of q or k reads

// Whether the feed-forward of layer `index` takes mod_percent of a document's tokens: the first
// layer and the last take all.
inline bool has_mod(const TrainConfig& c, std::size_t index) {
  return c.mod_percent > 0 && c.mod_percent < 100 && index > 0 && index + 1 < c.pattern.size();
}

} // namespace assay
