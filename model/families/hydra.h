// Family `hydra`: compressed convolutional attention, and feed-forwards that are applied several
// times to some of the tokens (model/families/routing/token_routing.h). docs/hydra.md.
#pragma once

#include "model/families/family.h"

namespace assay {

BuiltModel build_hydra(const TrainConfig& config, at::Generator generator);

} // namespace assay
