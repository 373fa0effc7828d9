// Equivalence of two paired samples by two one-sided t tests (Schuirmann 1987, J. Pharmacokinet.
// Biopharm. 15, 657): the mean difference D is proved to be inside (-margin, +margin). Reference
// values: tests/core/scipy_vectors.json.
#pragma once

#include <optional>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

inline constexpr double kTostAlpha = 0.05; // of each one-sided test; their interval is 90 %

struct Tost {
  double mean = 0;   // of the differences
  Interval at_90;    // t interval; TOST at .05 passes iff it is inside (-margin, +margin)
  double p_low = 1;  // one-sided p of "mean <= -margin"
  double p_high = 1; // one-sided p of "mean >= +margin": alone, the test of non-inferiority

  double p() const { return p_low > p_high ? p_low : p_high; }
};

// `differences`: one a pair, finite; margin > 0 in their unit. Nothing below 2 values.
std::optional<Tost> tost(const std::vector<double>& differences, double margin);

// Fewest pairs (at most `limit`) with which TOST at .05 passes with probability `power` when the
// true difference is 0 and one difference has the standard deviation `sd`: the smallest n with
// (t_{.95, n-1} + t_{(1 + power) / 2, n-1}) sd / sqrt(n) <= margin (Julious 2004, Stat. Med. 23,
// 1921, with t for z). Nothing when `limit` is not enough.
std::optional<int> tost_pairs_needed(double sd, double margin, double power, int limit = 1000);

} // namespace assay
