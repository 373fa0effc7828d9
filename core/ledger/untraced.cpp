#include "core/ledger/untraced.h"

namespace assay {

std::string left_untraced(const LedgerData& data, std::int64_t cell) {
  if (data.latest_launch(cell, LaunchKind::Traced, LaunchState::Complete) != nullptr) return "";
  std::string why;
  for (const EventRow& event : data.events) {
    if (event.kind != "untraced") continue;
    for (const LaunchRow& launch : data.launches)
      if (launch.id == event.launch && launch.cell == cell) why = event.detail;
  }
  return why;
}

} // namespace assay
