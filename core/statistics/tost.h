// Equivalence of two paired samples by two one-sided t tests (Schuirmann 1987, J. Pharmacokinet.
// Biopharm. 15, 657): the mean difference D is proved to be inside (-margin, +margin). Reference
// values: tests/core/scipy_vectors.json.
#pragma once

#include <optional>
#include <vector>

#include "core/statistics/statistics.h"

namespace assay {

// Of each one-sided test, when it is the only test of a plan; several share it (Bonferroni).
inline constexpr double kTostAlpha = 0.05;

struct Tost {
  double mean = 0;   // of the differences
  Interval interval; // t interval of level 1 - 2 alpha; TOST at alpha passes iff it is inside
                     // (-margin, +margin)
  double alpha = kTostAlpha;
  double p_low = 1;  // one-sided p of "mean <= -margin"
  double p_high = 1; // one-sided p of "mean >= +margin": alone, the test of non-inferiority

  double level() const { return 1 - 2 * alpha; } // of the interval: .90 at .05
  double p() const { return p_low > p_high ? p_low : p_high; }
};

// `differences`: one per pair, finite; margin > 0 in their unit. Nothing below 2 values.
std::optional<Tost>
tost(const std::vector<double>& differences, double margin, double alpha = kTostAlpha);

// Fewest pairs (at most `limit`) with which TOST at `alpha` passes with probability `power` when
// the true difference is 0 and one difference has the standard deviation `sd`: the smallest n with
// (t_{1 - alpha, n-1} + t_{(1 + power) / 2, n-1}) sd / sqrt(n) <= margin (Julious 2004, Stat. Med.
// 23, 1921, with t for z). Nothing when `limit` is not enough.
std::optional<int> tost_pairs_needed(
    double sd, double margin, double power, double alpha = kTostAlpha, int limit = 1000);

} // namespace assay
