// The configurations that a cell of a matrix compares, before they have names and ids.
#pragma once

#include <optional>
#include <vector>

#include "core/result.h"
#include "experiments/plan/matrix/matrix.h"
#include "model/config/fast_defaults.h"
#include "model/config/optimization.h"

namespace assay {

// A level of the cell's optimization with its resolved configuration.
struct Draft {
  const Level* level; // of the optimization's row
  TrainConfig config;
};

struct Drafts {
  std::vector<Draft> levels;       // the reference first
  std::vector<Fallback> fallbacks; // of the fast defaults of a GPU
};

// `base` with the cell's `set` on top and what nobody set at its default, once for each level: the
// reference first, then the chosen ones in the registry's order. `row` is the cell's optimization
// and has every level that the cell names. `capability`: of the GPU, see take_fast_defaults(). The
// error has the mistakes of all levels, one a line, each with file, line and cell.
Result<Drafts> drafts(const std::vector<ConfigValue>& base,
                      const MatrixCell& cell,
                      const Optimization& row,
                      int capability = 0);

// `base` with the cell's `set` on top, not resolved: what a cell trains on, whatever it compares.
std::optional<TrainConfig> config_of_cell(const std::vector<ConfigValue>& base,
                                          const MatrixCell& cell);

} // namespace assay
