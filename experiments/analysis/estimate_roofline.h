// Speed of light: joins what a report measured with the cost of the step by its shape
// (model/config/step_cost.h) and the peaks of the device on which it ran.
#pragma once

#include "core/ledger/ledger.h"
#include "experiments/analysis/report.h"

namespace assay {

// Fills CellReport::speed: one entry for each timed variant of a cell whose unit is the train step,
// else one for the train step beside the unit. Call after explain_from_traces(): launches and busy
// time come from there. Calling it again fills anew. Nothing is made up: a cell without measured
// peaks says so.
void estimate_roofline(Report& report, const LedgerData& data);

} // namespace assay
