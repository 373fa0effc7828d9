// Pairs: for two variants of a cell, the visits of the same round of the same timed launch. Never
// across launches, hosts or rounds. Which pairs the machine disturbed is decided here, by
// covariates only, never by a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ledger/covariates.h"
#include "core/ledger/ledger.h"
#include "experiments/evidence/cell_view.h"
#include "experiments/evidence/reason.h"

namespace assay {

// The two sides are disturbed unequally: Fisher's exact test of disturbed visits, or a t test of
// the run delay of the candidate minus that of the baseline, pair by pair, where pairs are excluded
// and the means are this far apart.
inline constexpr double kArmImbalanceAlpha = 0.01;
inline constexpr double kDelayGap = 0.01; // of a visit's time

struct Pair {
  int round = 0;             // from 1, after the warm-up
  double a_ns = 0, b_ns = 0; // wall time of one unit
  double log_ratio = 0;      // ln(b / a)
  std::optional<double> a_device_ns, b_device_ns;
  std::optional<double> a_delay, b_delay; // run delay, a share of the visit
  bool candidate_second = false;          // the baseline's visit came first
  std::string excluded;                   // why, or "" for a pair that counts
};

struct LaunchPairs {
  std::int64_t launch = 0; // ledger id
  int index = 0;
  bool steady = true;
  std::vector<Pair> pairs; // by round

  std::vector<double> log_ratios(bool with_excluded) const;
  // At least half of the pairs are left; else the launch counts nowhere but in the result with
  // every pair. Looks at every pair, so ask once per launch.
  bool counts() const;
};

struct PairSet {
  std::vector<LaunchPairs> launches; // complete ones, and partial ones with half of the rounds
  std::string work_mismatch;         // a pair whose arms did not do equal work, or ""
  // Of the launches that count.
  std::int64_t pairs = 0, excluded = 0;
  std::int64_t disturbed_a = 0, disturbed_b = 0; // visits beyond a covariate limit
  double imbalance_p = 1;                        // Fisher's exact test of those two
  std::optional<double> delay_gap; // mean run delay of the candidate's visits minus the baseline's
  std::optional<double> delay_p;   // t test of it over pairs
  std::int64_t skipped_a = 0, skipped_b = 0; // optimizer steps the loss scaler skipped
  std::optional<Reason> contended;           // why there is no verdict

  // Of every launch, those that do not count included.
  std::int64_t all_pairs() const;
  std::int64_t all_excluded() const;
  std::size_t counted_launches() const;
};

// "9 of 32 pairs are excluded and 1 of 5 launches is left out", or "".
std::string excluded_text(const PairSet& pairs);

PairSet collect_pairs(const CellView& cell, const VariantRow& a, const VariantRow& b);

} // namespace assay
