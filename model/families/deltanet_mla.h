// The family `deltanet_mla`: pre-norm residual blocks of gated DeltaNet (G) and latent attention
// (M) layers with SwiGLU feed-forward, final norm, untied head.
#pragma once

#include "model/families/family.h"

namespace assay {

BuiltModel build_deltanet_mla(const TrainConfig& config, at::Generator generator);

} // namespace assay
