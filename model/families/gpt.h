// The family `gpt`: pre-norm residual blocks of causal multi-head attention and an MLP with tanh
// GELU in the form of GPT-2: layer norms, biases, learned positions, the embedding as head.
// Equations: docs/gpt.md.
#pragma once

#include "model/families/family.h"

namespace assay {

BuiltModel build_gpt(const TrainConfig& config, at::Generator generator);

} // namespace assay
