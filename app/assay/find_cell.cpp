#include "app/assay/find_cell.h"

#include <algorithm>
#include <vector>

#include "experiments/plan/matrix/cell_name.h"

namespace assay::cli {

std::size_t find_cell(const Report& report, const std::string& name) {
  std::vector<std::string> names;
  for (const CellReport& cell : report.cells) names.push_back(cell.cell.name);
  require_cell("--cell", name, names);
  return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

} // namespace assay::cli
