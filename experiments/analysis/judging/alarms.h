// Alarms: what a reader must know before believing the table.
#pragma once

#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// Adds to report.alarms: retirements, control alarms, disturbed pairs, launches on several
// machines, failed launches, the machine's calibration. Reads the report's cells, launches and
// calibration.
void note_alarms(const std::vector<CellView>& cells, Report& report);

} // namespace assay
