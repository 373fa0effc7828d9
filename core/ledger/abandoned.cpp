#include "core/ledger/abandoned.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/ledger/launch_rules.h"

namespace assay {

std::vector<AbandonedLaunch> abandoned_launches(const LedgerData& data) {
  std::map<std::int64_t, std::set<int>> rounds; // timed ones, by launch
  for (const VisitRow& visit : data.visits)
    if (!visit.warmup) rounds[visit.launch].insert(visit.round);
  std::vector<AbandonedLaunch> found;
  for (const LaunchRow& launch : data.launches) {
    if (launch.state != LaunchState::Running) continue;
    const bool counts =
        launch.kind == LaunchKind::Timed &&
        enough_rounds(static_cast<int>(rounds[launch.id].size()), launch.rounds_planned);
    found.push_back({launch.id, counts ? LaunchState::Partial : LaunchState::Failed});
  }
  return found;
}

void count_abandoned_launches(LedgerData& data) {
  const std::vector<AbandonedLaunch> abandoned = abandoned_launches(data);
  for (LaunchRow& launch : data.launches) {
    const auto found = std::ranges::find(abandoned, launch.id, &AbandonedLaunch::launch);
    if (found == abandoned.end() || found->state != LaunchState::Partial) continue;
    launch.state = LaunchState::Partial;
    launch.reason = kEngineStopped;
  }
}

} // namespace assay
