// Waiting for a quiet machine before a launch: `assay run --wait-for-quiet`. Decides by covariates
// and the plan's [limits] alone, as visits are called disturbed, never by a measured time.
#pragma once

#include <functional>
#include <string>

#include "core/ledger/ledger.h"

namespace assay {

inline constexpr double kQuietLimitSeconds = 600; // of one wait, unless the user says otherwise

struct QuietWait {
  // What a visit would meet now; takes about a second.
  std::function<Covariates()> sample;
  double limit_seconds = kQuietLimitSeconds; // then the launch begins all the same
  double pause_seconds = 4;                  // after a sample that is disturbed
};

struct QuietResult {
  bool quiet = true;  // false: the limit passed, or the run is to stop
  double seconds = 0; // waited
  std::string first;  // what disturbed the first sample, or "": there was nothing to wait for
  std::string last;   // … the last one that was disturbed
  std::string detail() const; // of the ledger's event; "" where nothing was waited for
};

// Returns after kQuietSamples quiet samples in a row, at the limit, or soon after `stopped()`. No
// sample begins that would end after the limit, the first aside; where the limit leaves room for
// fewer than kQuietSamples, all of them have to be quiet.
// `waiting` hears what is waited for, and for how many seconds so far.
inline constexpr int kQuietSamples = 3;
QuietResult wait_for_quiet(const QuietWait& options,
                           const DisturbanceLimits& limits,
                           const std::function<bool()>& stopped,
                           const std::function<void(const std::string&, double)>& waiting);

} // namespace assay
