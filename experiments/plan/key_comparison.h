// Cells that compare sets of training keys: [cell.variants], or a design with [cell.steps].
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "experiments/plan/drafts.h"
#include "experiments/plan/matrix.h"
#include "model/config/optimization.h"

namespace assay {

class TomlTable;

// Reads the variants or the design and steps of a [[cell]], with `expect` and `unit`.
void read_key_comparison(TomlTable& table, MatrixCell& cell);

// The cell's variants, or those of its design, as the levels of a row of its own, the baseline
// first. Errors name the line.
Result<Optimization> row_of_variants(const MatrixCell& cell);

// What cannot be compared in one process, one problem a variant or step; `all` begins with the
// baseline.
std::vector<std::string> wrong_variants(const MatrixCell& cell, const std::vector<Draft>& all);

} // namespace assay
