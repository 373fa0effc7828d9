// The plan as JSON: what people read and what the spec hash is taken of.
#pragma once

#include <string>

#include "core/ledger.h"

namespace assay {

// Everything that determines what is measured and how it is judged: not the command line, the time,
// or the budget.
std::string plan_json(const LedgerData& plan);

} // namespace assay
