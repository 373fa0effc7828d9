// What a plan still needs: a pure function of the rows in its ledger, so that resuming is planning
// minus what is there. The runner, `assay status` and every report read this one rule.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"

namespace assay {

inline constexpr int kAttempts = 2; // of a launch that fails, unless its input is bad

struct LaunchTask {
  std::int64_t cell = 0;
  LaunchKind kind = LaunchKind::Parity;
  int index = 1;            // from 1, within its kind
  int attempt = 0;          // from 0
  std::int64_t repeats = 0; // the launch that is measured again on request; 0: none
};

// Of a cell, in the plan's order.
std::vector<const VariantRow*> variants_of(const LedgerData& plan, std::int64_t cell);

// Variants that launches of this kind leave out, with the reason: a failed gate, or retired. A
// variant that only a loss launch retired diverged in a longer training than any other launch has,
// so it is left out of loss launches alone.
std::map<std::int64_t, std::string>
excluded_variants(const LedgerData& data, std::int64_t cell, LaunchKind kind = LaunchKind::Timed);

// Why a cell cannot be measured at all (loss launches aside), or "": its parity launch failed, or
// only the reference or nothing but the reference is left. Failures count from launch `since`
// (excluded) on.
std::string blocked(const LedgerData& data, const CellRow& cell, std::int64_t since = 0);

// The launches that are still to be made, in order: the parity launch of every cell, the memory
// launches, then timed launch 1 of every cell, timed launch 2 … so that an early stop leaves
// balanced data; then the loss launches in the same order; the traced launches, which explain
// verdicts and never make them, come last. A launch that failed kAttempts times after launch
// `since`, or once by bad input, is given up.
std::vector<LaunchTask> missing_launches(const LedgerData& data, std::int64_t since = 0);

// A look that is due: the launches before it are there, and none of them is asked for again.
struct LookTask {
  std::int64_t cell = 0, launch = 0; // launch: the newest that it waited for
  int launches = 0;
};
std::vector<LookTask> looks_to_take(const LedgerData& data);

// "timed launch 3", "timed launches 1 to 4, 6", "parity launch". The indices count from 1 within
// cell and kind, which is how people see a launch everywhere.
std::string numbered_launches_text(LaunchKind kind, const std::set<int>& indices);

struct OwedLaunches { // of one cell and kind
  std::int64_t cell = 0;
  LaunchKind kind = LaunchKind::Parity;
  int launches = 0; // of `planned`: those that the next run makes, and those that were given up
  int planned = 0;
  int given_up = 0;
  int again = 0; // that are there, and a `redo` event asks for them again; given up or not
};
// "2 of 5 timed launches (1 failed)", "5 of 5 timed launches (5 to be measured again)"
std::string owed_text(const OwedLaunches& owed);

struct PlanProgress {
  int planned = 0;                      // launches of all kinds, cells that are blocked included
  int done = 0, partial = 0;            // partial ones are in done too
  int failed = 0;                       // given up
  int not_run = 0;                      // because their cell is blocked, or for want of disk
  int untraced = 0;                     // of these for want of disk
  int missing = 0;                      // still to be made
  std::vector<std::string> problems;    // "varlen timed launches 1 to 3: …"; equal ones once
  std::set<std::int64_t> launches_told; // launches whose own reason is in one of them
  // What the plan owes, in the order of its launches. Launches of a blocked cell are not owed: no
  // run would make them.
  std::vector<OwedLaunches> owed;

  bool complete() const { return owed.empty(); }
};
PlanProgress plan_progress(const LedgerData& data, std::int64_t since = 0);

} // namespace assay
