// What each choice of `mla_attention` needs, for every family whose attention it chooses.
#pragma once

#include "core/result.h"
#include "model/config/train_config.h"

namespace assay {

Result<bool> check_mla_attention(const TrainConfig& config);

// Whether attention = packed or varlen, which kernels with cu_seqlens compute.
bool packs_segments(const TrainConfig& config);

// Whether cuDNN's kernels take precision and widths.
bool fits_cudnn(const TrainConfig& config);

} // namespace assay
