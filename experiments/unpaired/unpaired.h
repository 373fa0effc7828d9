// Two results that were not measured together: times of the same variants in two runs, and paired
// effects of the same comparisons in both. Nothing here is a verdict: the runs were not
// interleaved, so whatever drifted between them enters a difference of times wholly. Rules:
// docs/statistics.md, "Two runs".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/result.h"
#include "core/statistics/welch.h"
#include "experiments/evidence/effect.h"
#include "experiments/unpaired/differences.h"

namespace assay {

enum class Unpaired {
  Slower, // the interval of the second run against the first is on one side of 0, and each side has
  Faster, // kFullLaunches
  NoDifferenceShown,
  TooFewLaunches, // no interval, or one beside 0 from fewer launches
  NotJudged,      // one of the runs has no valid measurement
};
std::string_view to_string(Unpaired value); // "slower", "no_difference_shown" …

// One value per launch on either side: ln(ns of a unit), or ln(candidate / baseline).
struct RunDifference {
  std::vector<double> first, second;
  std::optional<MeanDifference> difference = {}; // second - first; needs 2 launches on each side
  std::optional<Interval> interval = {};         // of it, at the shared alpha
  Unpaired state = Unpaired::TooFewLaunches;
  std::string reason = {}; // of TooFewLaunches and NotJudged; else ""
};

struct TimeChange { // of one variant
  std::string variant;
  RunDifference runs;
  // Half-width of `runs.interval` over that of the paired comparison of the same variant within a
  // run, the wider of the two runs, at the same alpha. Paired: a level against the baseline, the
  // baseline against its control.
  std::optional<double> width_ratio = {};
};

struct EffectChange { // of one comparison
  std::string a, b;
  RunDifference runs;
};

struct UnpairedCell {
  std::string cell, unit;
  std::vector<Cause> causes = {}; // what differs beside the build
  std::vector<TimeChange> times = {};
  std::vector<EffectChange> effects = {};
  std::vector<std::string> not_comparable =
      {}; // "varlen: seq_len: 64 in the first, 128 in the second"
};

struct UnpairedRun {
  std::string directory, hash, name;
  std::vector<std::string> builds = {};      // of the launches that count
  std::string first_utc = {}, last_utc = {}; // when they were measured
  std::vector<std::string> only_cells = {};  // that the other run lacks
};

struct UnpairedReport {
  UnpairedRun first, second;
  double alpha = 0.05;        // the smaller of the two plans
  int comparisons = 0;        // time changes and effect changes, of all cells
  double judged_alpha = 0.05; // alpha / comparisons
  std::vector<UnpairedCell> cells;
};

struct NamedResults {
  const LedgerData& data;
  const std::string& directory; // for messages
};
// Errors: no cell of one name, nothing that can be compared (with the first reason), or a launch
// that both contain.
Result<UnpairedReport> compare_runs(const NamedResults& first, const NamedResults& second);

} // namespace assay
