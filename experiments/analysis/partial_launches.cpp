#include "experiments/analysis/partial_launches.h"

#include <vector>

#include "core/text.h"
#include "experiments/evidence/cell_view.h"

namespace assay {

void count_partial_launches(Report& report) {
  for (const LaunchSummary& launch : report.launches) {
    const LaunchRow& row = launch.row;
    if (row.kind != LaunchKind::Timed || row.state == LaunchState::Running || launch.rounds == 0 ||
        launch.rounds >= row.rounds_planned)
      continue;
    for (CellReport& cell : report.cells)
      if (cell.cell.id == row.cell)
        ++(is_counted(row) && !launch.replaced ? cell.partial.counted : cell.partial.left_out);
  }
}

std::string partial_line(const CellReport& cell) {
  const auto [counted, left_out] = cell.partial;
  std::vector<std::string> fates;
  if (counted > 0)
    fates.push_back(counted == 1 ? "1 counts with the rounds that it has"
                                 : fmt::format("{} count with the rounds that they have", counted));
  if (left_out > 0)
    fates.push_back(fmt::format("{} {} left out, with too few rounds or measured again",
                                left_out,
                                left_out == 1 ? "is" : "are"));
  if (fates.empty()) return "";
  return fmt::format("{} timed launch{} ended early: {}",
                     counted + left_out,
                     counted + left_out == 1 ? "" : "es",
                     fmt::join(fates, ", "));
}

} // namespace assay
