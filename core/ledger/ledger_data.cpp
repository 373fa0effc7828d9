// Look-ups in rows that were read, and the words of their enumerations.
#include <fmt/format.h>

#include <algorithm>

#include "core/ledger/ledger.h"
#include "core/ledger/looks.h"
#include "core/result.h"

namespace assay {

bool has_results(LaunchState state) {
  return state == LaunchState::Complete || state == LaunchState::Partial;
}

const CellRow& LedgerData::cell(std::int64_t id) const {
  const auto found =
      std::find_if(cells.begin(), cells.end(), [id](const CellRow& row) { return row.id == id; });
  if (found == cells.end()) internal_error("the ledger has no cell {}", id);
  return *found;
}

const VariantRow& LedgerData::variant(std::int64_t id) const {
  const auto found = std::find_if(
      variants.begin(), variants.end(), [id](const VariantRow& row) { return row.id == id; });
  if (found == variants.end()) internal_error("the ledger has no variant {}", id);
  return *found;
}

const StepCostRow* LedgerData::cost(std::int64_t variant) const {
  const auto found = std::find_if(costs.begin(), costs.end(), [variant](const StepCostRow& row) {
    return row.variant == variant;
  });
  return found == costs.end() ? nullptr : &*found;
}

bool LedgerData::superseded(std::int64_t launch) const {
  return std::any_of(launches.begin(), launches.end(), [launch](const LaunchRow& row) {
    return row.repeats == launch && has_results(row.state);
  });
}

bool LedgerData::set_aside(std::int64_t launch) const {
  return std::any_of(events.begin(), events.end(), [launch](const EventRow& event) {
    return event.launch == launch && event.kind == "set_aside";
  });
}

int LedgerData::planned_launches(const CellRow& cell) const {
  if (!cell.looks.empty()) return cell.looks[current_look(*this, cell)];
  return cell.launches > 0 ? cell.launches : spec.launches;
}

const LaunchRow*
LedgerData::latest_launch(std::int64_t cell, LaunchKind kind, LaunchState state) const {
  const auto found = std::find_if(launches.rbegin(), launches.rend(), [&](const LaunchRow& row) {
    return row.cell == cell && row.kind == kind && row.state == state;
  });
  return found == launches.rend() ? nullptr : &*found;
}

std::string group_name(std::string_view cell, std::size_t group) {
  return fmt::format("{}/group{}", cell, group);
}

bool is_of_cell(std::string_view name, std::string_view cell) {
  return name == cell || name.starts_with(fmt::format("{}/group", cell));
}

std::string_view to_string(Role role) {
  constexpr std::string_view kNames[] = {"reference", "level", "control"};
  return kNames[static_cast<int>(role)];
}

std::string_view to_string(LaunchKind kind) {
  constexpr std::string_view kNames[] = {"parity", "timed", "memory", "traced", "loss", "energy"};
  return kNames[static_cast<int>(kind)];
}

std::string_view to_string(LaunchState state) {
  constexpr std::string_view kNames[] = {"running", "complete", "partial", "failed"};
  return kNames[static_cast<int>(state)];
}

} // namespace assay
