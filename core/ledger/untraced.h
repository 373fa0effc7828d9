// Cells whose traced launch a run left out, since its traces would exceed the disk budget.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// Why, of the newest such decision; "" where the cell has a complete traced launch, or was never
// left out.
std::string left_untraced(const LedgerData& data, std::int64_t cell);

} // namespace assay
