#include "experiments/analysis/alarms.h"

#include <cmath>
#include <map>
#include <set>

#include "experiments/analysis/wording.h"

namespace assay {

namespace {

constexpr double kMemoryAlarm = 1e-4; // share of peak memory: below lie rounded blocks

// What a launch ran with, beside host, board and build: the same in all launches of a cell.
std::vector<std::pair<const char*, std::string>> environment_fields(const Identity& id) {
  return {{"threads", std::to_string(id.threads)},
          {"usable cores", std::to_string(id.cores)},
          {"processor", id.cpu},
          {"board", id.gpu},
          {"driver", id.driver},
          {"CUDA", id.cuda},
          {"LibTorch", id.libtorch},
          {"kernel", id.kernel}};
}

void note_surroundings(Report& report) {
  struct Found {
    std::set<std::string> all, timed;
  };
  std::map<std::pair<std::string, std::string>, Found> values; // by cell and field
  for (const LaunchSummary& launch : report.launches) {
    if (launch.row.state != LaunchState::Complete && launch.row.state != LaunchState::Partial)
      continue;
    for (const auto& [field, value] : environment_fields(launch.row.identity)) {
      Found& found = values[{launch.cell, field}];
      found.all.insert(value.empty() ? "unknown" : value);
      if (is_counted(launch.row)) found.timed.insert(value);
    }
  }
  for (const auto& [place, found] : values)
    if (found.all.size() > 1)
      report.alarms.push_back(fmt::format(
          "{}: launches ran with different {}: {}; {}",
          place.first,
          place.second,
          fmt::join(found.all, ", "),
          found.timed.size() > 1 ? "each pair comes from one of them, but the interval mixes them"
                                 : "those that were timed are alike"));
}

double control_memory_gap(const CellReport& cell) {
  if (!cell.control) return 0;
  const std::optional<MemoryEffect>& memory = cell.control->comparison.memory;
  return memory ? std::expm1(memory->noise.value_or(0)) : 0;
}

} // namespace

void note_alarms(const std::vector<CellView>& cells, Report& report) {
  for (const CellView& cell : cells)
    for (const VariantRow* variant : cell.variants)
      if (const RetiredVariant* retired = cell.retired(*variant))
        report.alarms.push_back(
            fmt::format("{}: {} retired: {}", cell.cell->name, variant->name, retired->text));
  for (const CellView& cell : cells)
    if (!cell.untraced.empty())
      report.alarms.push_back(fmt::format("{}: no trace: {}", cell.cell->name, cell.untraced));
  for (const CellReport& cell : report.cells) {
    if (cell.control && cell.control->alarm)
      report.alarms.push_back(
          fmt::format("{}: the A/A control differs from the reference by {}, p = {:.2g}",
                      cell.cell.name,
                      effect_text(cell.control->comparison.effect->theta),
                      *cell.control->comparison.effect->theta.p));
    if (const double apart = control_memory_gap(cell); apart > kMemoryAlarm)
      report.alarms.push_back(fmt::format("{}: peak memory of the reference, measured twice, is {} "
                                          "apart: no smaller difference of memory is shown",
                                          cell.cell.name,
                                          share_text(apart)));
    for (const Comparison& comparison : cell.comparisons)
      if (comparison.pairs.all_excluded() > 0)
        report.alarms.push_back(
            fmt::format("{}: {} of {} pairs {} against {} excluded (disturbed by other work)",
                        cell.cell.name,
                        comparison.pairs.all_excluded(),
                        comparison.pairs.all_pairs(),
                        comparison.b,
                        comparison.a));
  }
  std::map<std::string, std::pair<std::set<std::string>, std::set<std::string>>> places; // by cell
  for (const LaunchSummary& launch : report.launches) {
    if (!is_counted(launch.row)) continue;
    auto& [hosts, boards] = places[launch.cell];
    hosts.insert(launch.row.identity.host);
    boards.insert(launch.row.identity.gpu_uuid);
  }
  for (const auto& [cell, place] : places)
    if (place.first.size() > 1 || place.second.size() > 1)
      report.alarms.push_back(fmt::format(
          "{}: launches ran on {} host{} and {} board{}; each pair comes from one of them, but "
          "the interval mixes them",
          cell,
          place.first.size(),
          place.first.size() == 1 ? "" : "s",
          place.second.size(),
          place.second.size() == 1 ? "" : "s"));
  note_surroundings(report);
  for (const LaunchSummary& launch : report.launches)
    if (launch.row.state == LaunchState::Failed && !launch.interrupted)
      report.alarms.push_back(fmt::format("{}: {} launch {} (attempt {}) failed: {}",
                                          launch.cell,
                                          to_string(launch.row.kind),
                                          launch.row.index,
                                          launch.row.attempt + 1, // as `assay run` counts them
                                          launch.row.reason));
}

} // namespace assay
