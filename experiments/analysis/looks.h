// When a cell with `launches = "auto"` needs no further launch.
#pragma once

#include <cstdint>
#include <string>

#include "experiments/analysis/report.h"

namespace assay {

// Whether nothing that the plan asks of the cell is open: every comparison and contrast is decided,
// or its interval is narrower than the smallest effect of interest, and so is every claim about
// time. What more launches cannot change (rejected, retired, equal work) is not open; disturbed
// launches are.
bool is_decided(const LedgerData& data, std::int64_t cell);

// "decided at look 1 of 3, after 5 launches (interval 99.13 %)"; "" for a cell without looks.
std::string looks_text(const CellReport& cell);

} // namespace assay
