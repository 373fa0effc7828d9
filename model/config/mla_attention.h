// What each choice of `mla_attention` needs, for every family whose attention it chooses.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "model/config/train_config.h"

namespace assay {

// `widths`: of a head's keys and values, each with the keys that give it ("head_dim + rope_dim").
Result<bool> check_mla_attention(const TrainConfig& config,
                                 const std::vector<std::pair<std::string, std::int64_t>>& widths);

} // namespace assay
