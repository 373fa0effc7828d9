// Lines of a comparison that two sections share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "experiments/analysis/report.h"

namespace assay {

// Joules of both sides, or why there are none; "" where nobody asked for them.
std::string energy_line(const CellReport& cell, const Comparison& comparison);

// "steps to loss 6.5", "time to loss 6.5": label and text of each that is known.
std::vector<std::pair<std::string, std::string>> to_loss_lines(const Comparison& comparison);

} // namespace assay
