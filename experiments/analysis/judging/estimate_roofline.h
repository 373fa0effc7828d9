// Roofline: joins what a report measured with the cost of the step by its shape
// (model/config/cost/step_cost.h) and the peaks of the device on which it ran.
#pragma once

#include "experiments/analysis/report.h"

namespace assay {

// Fills CellReport::speed: one entry for each timed variant of a cell whose unit is the train step,
// else one for the train step beside the unit. Kernel launches and busy time come from the
// comparisons' explanations. Nothing is made up: a cell without measured peaks gives the reason,
// and CellReport::no_speed says why a variant has no entry.
void estimate_roofline(CellReport& report, const CellView& cell);

} // namespace assay
