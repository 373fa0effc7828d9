// Launches that a ledger calls running and whose engine is gone.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

struct AbandonedLaunch {
  std::int64_t launch = 0;
  // What the next run makes of it. Partial: a timed one with enough rounds, which counts. Else
  // failed.
  LaunchState state = LaunchState::Failed;
};

// All that are running: no engine may hold the directory.
std::vector<AbandonedLaunch> abandoned_launches(const LedgerData& data);

// Those with enough rounds are partial, as the next run makes them, so that nobody who reads the
// ledger counts otherwise. The others stay.
void count_abandoned_launches(LedgerData& data);

} // namespace assay
