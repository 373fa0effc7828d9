#include <algorithm>
#include <set>

#include "core/result.h"
#include "core/text.h"
#include "experiments/analysis/report.h"

namespace assay {

namespace {

std::size_t index_of(const Report& report, const std::string& name) {
  for (std::size_t i = 0; i < report.cells.size(); ++i)
    if (report.cells[i].cell.name == name) return i;
  internal_error("the report has no cell '{}'", printable(name));
}

// Claims that no cell tests are about the cell whose optimization they name.
std::vector<ClaimResult>
claims_about(const Report& report, std::size_t cell, const std::string& optimization) {
  std::vector<ClaimResult> kept;
  for (ClaimResult claim : report.claims) {
    if (claim.cell ? *claim.cell != cell : claim.claim.optimization != optimization) continue;
    if (claim.cell) claim.cell = 0;
    kept.push_back(std::move(claim));
  }
  return kept;
}

} // namespace

Report report_of_cell(const Report& report, const std::string& cell) {
  const std::size_t index = index_of(report, cell);
  const CellReport& kept = report.cells[index];
  Report one = report;
  one.cells = {kept};
  if (one.winner && one.winner->cell != index) one.winner.reset();
  if (one.winner) one.winner->cell = 0;
  one.claims = claims_about(report, index, kept.cell.optimization);
  std::erase_if(one.launches,
                [&](const LaunchSummary& launch) { return launch.row.cell != kept.cell.id; });
  std::erase_if(one.alarms,
                [&](const Alarm& alarm) { return alarm.cell != 0 && alarm.cell != kept.cell.id; });
  std::erase_if(one.notes, [&](const NoteRow& note) {
    return !note.cell.empty() && !is_of_cell(kept.cell.name, note.cell);
  });
  std::set<std::int64_t> others; // launches
  for (const LaunchSummary& launch : report.launches)
    if (launch.row.cell != kept.cell.id) others.insert(launch.row.id);
  std::erase_if(one.events, [&](const EventRow& event) { return others.contains(event.launch); });
  one.missing.clear();
  for (const std::string& text : kept.missing)
    one.missing.push_back(fmt::format("{}: {}", cell, text));
  one.shape_warnings.clear();
  for (const std::string& text : kept.shape_warnings)
    one.shape_warnings.push_back(fmt::format("cell {}: {}", cell, text));
  return one;
}

} // namespace assay
