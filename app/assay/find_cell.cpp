#include "app/assay/find_cell.h"

#include <fmt/ranges.h>

#include "core/result.h"
#include "core/text.h"

namespace assay::cli {

std::size_t find_cell(const Report& report, const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < report.cells.size(); ++i) {
    if (report.cells[i].cell.name == name) return i;
    names.push_back(report.cells[i].cell.name);
  }
  bad_input("no cell '{}' in these results{}; cells are: {}",
            printable(name),
            did_you_mean(name, names),
            printable(fmt::format("{}", fmt::join(names, ", "))));
}

} // namespace assay::cli
