#include "core/ledger/looks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

namespace assay {

LookState look_state(const LedgerData& data, const CellRow& cell) {
  LookState state;
  for (const EventRow& event : data.events) {
    if (event.kind != "look") continue;
    const auto launch = std::ranges::find(data.launches, event.launch, &LaunchRow::id);
    if (launch == data.launches.end() || launch->cell != cell.id) continue;
    const auto look = std::ranges::find(cell.looks, launch->index);
    if (look == cell.looks.end()) continue;
    state.taken = std::max(state.taken, static_cast<std::size_t>(look - cell.looks.begin()) + 1);
    state.decided = state.decided || event.cause == kCauseDecided;
  }
  return state;
}

std::size_t current_look(const LedgerData& data, const CellRow& cell) {
  const LookState state = look_state(data, cell);
  return state.decided ? state.taken - 1 : std::min(state.taken, cell.looks.size() - 1);
}

std::string looks_text(const std::vector<int>& looks) {
  return fmt::format("{}", fmt::join(looks, ","));
}

std::optional<std::vector<int>> parse_looks(std::string_view text) {
  std::vector<int> looks;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    const auto [next, error] = std::from_chars(at, end, looks.emplace_back());
    if (error != std::errc() || (next < end && *next != ',')) return std::nullopt;
    at = next;
  }
  return looks;
}

} // namespace assay
