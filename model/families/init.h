// Initial values that families share.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "model/config/family_config.h"
#include "model/config/shapes/mup.h"
#include "model/config/train_config.h"

namespace assay {

inline double embedding_std(const TrainConfig& config) {
  const double std = family_of(config).form.matrix_std;
  return std > 0 ? std : 0.1;
}

// What the family says, or half of 1/sqrt(fan_in): 0.018 at width 768, close to the usual 0.02, and
// larger for narrow models.
inline double matrix_std(std::int64_t fan_in, const TrainConfig& config) {
  const double std = family_of(config).form.matrix_std;
  return std > 0 ? std : 0.5 / std::sqrt(static_cast<double>(fan_in));
}

// Of what reads d_model and does not grow with it: head and routers.
inline double head_std(const TrainConfig& config) {
  return matrix_std(config.d_model, config) / std::sqrt(mup_ratio(config));
}

// Matrices that write into the residual stream are smaller by the root of the number of such writes
// (GPT-2): two a layer, one more for every other pass of its feed-forward.
inline double residual_std(std::int64_t fan_in, const TrainConfig& config) {
  const std::int64_t passes = std::max<std::int64_t>(config.recursions, 1);
  return matrix_std(fan_in, config) /
         std::sqrt(static_cast<double>(1 + passes) * static_cast<double>(config.pattern.size()));
}

// The inverse softplus of steps drawn log-uniformly from [0.001, 0.1], and log of decay rates from
// [1, 16]: the ranges of Mamba-2 (arXiv 2405.21060), which Gated DeltaNet keeps.
inline at::Tensor initial_dt_bias(std::int64_t heads, at::Generator generator) {
  const at::Tensor dt =
      at::empty({heads}).uniform_(std::log(1e-3), std::log(1e-1), generator).exp_();
  return dt + at::log(-at::expm1(-dt));
}

inline at::Tensor initial_a_log(std::int64_t heads, at::Generator generator) {
  return at::empty({heads}).uniform_(1.0, 16.0, generator).log_();
}

} // namespace assay
