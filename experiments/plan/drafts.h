// The configurations that a cell of a matrix compares, before they have names and ids.
#pragma once

#include <vector>

#include "core/result.h"
#include "experiments/plan/matrix.h"
#include "model/config/optimization.h"

namespace assay {

// A level of the cell's optimization with its resolved configuration.
struct Draft {
  const Level* level; // of the optimization's row
  TrainConfig config;
};

// `base` with the cell's `set` on top, once for each level: the reference first, then the chosen
// ones in the registry's order. `row` is the cell's optimization and has every level that the cell
// names. The error names file, line and cell.
Result<std::vector<Draft>>
drafts(const std::vector<ConfigValue>& base, const MatrixCell& cell, const Optimization& row);

} // namespace assay
