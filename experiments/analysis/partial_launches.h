// Timed launches that ended before their last round.
#pragma once

#include <string>

#include "experiments/analysis/report.h"

namespace assay {

// Sets PartialLaunches of every cell, from report.launches.
void count_partial_launches(Report& report);

// "2 timed launches ended early: 1 counts with the rounds that it has, 1 is left out …", or "".
std::string partial_line(const CellReport& cell);

} // namespace assay
