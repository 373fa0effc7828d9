// The cell that `--cell` names.
#pragma once

#include <cstddef>
#include <string>

#include "experiments/analysis/report.h"

namespace assay::cli {

// Its place in report.cells; bad input with the names that there are.
std::size_t find_cell(const Report& report, const std::string& name);

} // namespace assay::cli
