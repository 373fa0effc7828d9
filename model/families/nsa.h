// The family `nsa`: pre-norm residual blocks of native sparse attention (or, for comparison, dense
// attention of the same shape) with a SiLU feed-forward, final norm, untied head.
#pragma once

#include "model/families/family.h"

namespace assay {

BuiltModel build_nsa(const TrainConfig& config, at::Generator generator);

} // namespace assay
