// Pairs: for two variants of a cell, the visits of the same round of the same timed launch. Never
// across launches, hosts or rounds. Which pairs the machine disturbed is decided here, by
// covariates only, never by a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ledger/covariates.h"
#include "core/ledger/ledger.h"

namespace assay {

inline constexpr double kArmImbalanceAlpha = 0.01; // Fisher's exact test, disturbed visits by arm

struct Pair {
  int round = 0;
  double a_ns = 0, b_ns = 0; // wall time of one unit
  double log_ratio = 0;      // ln(b / a)
  std::optional<double> a_device_ns, b_device_ns;
  bool b_second = false; // A's visit came first
  std::string excluded;  // why, or "" for a pair that counts
};

struct LaunchPairs {
  std::int64_t launch = 0; // ledger id
  int index = 0;
  bool steady = true;
  std::vector<Pair> pairs; // by round

  std::vector<double> log_ratios(bool with_excluded) const;
  bool enough(std::size_t left) const { return left > 0 && 2 * left >= pairs.size(); }
};

struct PairSet {
  std::vector<LaunchPairs> launches; // those that count: complete, or partial with half the rounds
  std::string work_mismatch;         // a pair whose arms did not do equal work, or ""
  std::int64_t pairs = 0, excluded = 0;
  std::int64_t disturbed_a = 0, disturbed_b = 0; // visits beyond a covariate limit
  double imbalance_p = 1;                        // Fisher's exact test of those two
  std::int64_t skipped_a = 0, skipped_b = 0;     // optimizer steps the loss scaler skipped
  std::string contended;                         // why there is no verdict, or ""
};

// Visits by launch, so that a comparison looks only at its own.
class VisitIndex {
public:
  explicit VisitIndex(const LedgerData& data);
  const std::vector<const VisitRow*>& of_launch(std::int64_t launch) const;

private:
  std::unordered_map<std::int64_t, std::vector<const VisitRow*>> visits_;
};

// The cell's variants of a role, in the plan's order.
std::vector<const VariantRow*> variants_of(const LedgerData& data, std::int64_t cell, Role role);

PairSet collect_pairs(const LedgerData& data,
                      const VisitIndex& visits,
                      const VariantRow& a,
                      const VariantRow& b);

// A launch whose rounds enter verdicts, if it has visits of both variants in half of them.
bool is_counted(const LaunchRow& launch);

} // namespace assay
