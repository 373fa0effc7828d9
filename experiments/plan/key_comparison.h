// Cells that compare sets of training keys: [cell.variants].
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "experiments/plan/drafts.h"
#include "experiments/plan/matrix.h"
#include "model/config/optimization.h"

namespace assay {

// The cell's variants as the levels of a row of its own, the baseline first. Errors name the line.
Result<Optimization> row_of_variants(const MatrixCell& cell);

// What cannot be compared in one process, one problem a difference; `all` begins with the baseline.
std::vector<std::string> wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all);

} // namespace assay
