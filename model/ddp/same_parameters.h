// Every rank must start from the same model: the reducer would average whatever it is given.
#pragma once

#include <vector>

#include "model/config/train_config.h"
#include "model/ddp/process_group.h"
#include "model/families/family.h"

namespace assay {

// Collective. Compares name, shape and sum of every parameter with rank 0's; throws bad input on
// every rank, naming the first rank that differs and its first parameter that does.
void require_same_parameters(const std::vector<Parameter>& parameters,
                             Device device,
                             ProcessGroup& ranks);

} // namespace assay
