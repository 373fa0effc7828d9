// What follows from the keys of a mixture of experts, for its sizes, its cost and its layers.
#pragma once

#include <cstdint>

#include "core/result.h"
#include "model/config/train_config.h"

namespace assay {

inline bool has_experts(const TrainConfig& c) {
  return c.experts > 0;
}

// Of a layer: the matrices of all its experts, each [2 expert_dim, d_model] and [d_model,
// expert_dim].
inline std::int64_t expert_parameters(const TrainConfig& c) {
  return c.experts * 3 * c.d_model * c.expert_dim;
}

inline Result<bool> check_experts(const TrainConfig& c) {
  if (c.experts_taken > c.experts)
    return fail(
        "key 'experts_taken' ({}) must be at most 'experts' ({})", c.experts_taken, c.experts);
  // Sizes of the largest models that the other keys allow stay within 64 bits.
  constexpr std::int64_t kMostHidden = std::int64_t{1} << 28;
  if (c.experts * c.expert_dim > kMostHidden)
    return fail("key 'experts' ({}) times 'expert_dim' ({}) must be at most {}",
                c.experts,
                c.expert_dim,
                kMostHidden);
  return true;
}

} // namespace assay
