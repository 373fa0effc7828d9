// Family `rwmba`: RWKV-6 and Mamba-2 side by side in a layer (P), or alone (R, S). docs/rwmba.md.
#pragma once

#include "model/families/family.h"

namespace assay {

BuiltModel build_rwmba(const TrainConfig& config, at::Generator generator);

} // namespace assay
