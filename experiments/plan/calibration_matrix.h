// The matrix with which `assay calibrate` asks whether this machine sees what is there and nothing
// else, with the configuration of a cell.
#pragma once

#include <string>

#include "core/ledger/ledger.h"

namespace assay {

// Two cells of the test row `planted_calibration` around the reference of `cell`, which is of
// `data`: kAaCell waits for a billionth of the step, kPlantedCell for 2 % of it. Rounds (of 40
// steps or more), visits and limits are those of the cell; the level and the smallest effect of
// interest are the defaults, so that calibrations can be compared. The step is no CUDA graph, in
// which nothing can wait, and a variant's own environment and program are left out.
std::string calibration_matrix(const LedgerData& data, const CellRow& cell);

} // namespace assay
