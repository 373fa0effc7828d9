// Runs a plan into a results directory: one worker process a launch, one transaction a round.
// Resumes what is missing; records what failed as rows with reasons; stops cleanly on a deadline or
// a signal.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/engine/quiet_wait.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/plan/plan.h"

namespace assay {

struct WaitProgress { // for a quiet machine, before a launch
  std::string cause;  // what disturbed the last sample
  double seconds = 0, limit_seconds = 0;
};

// Plain data for the progress line.
struct RunProgress {
  int launch_number = 0, launches = 0; // of all kinds; launch_number from 1
  std::string cell;
  LaunchTask task;
  int round = 0, rounds = 0; // counted rounds done and planned; 0 of 0 for gates and memory
  bool warmup = false;
  int warmup_round = 0;
  int disturbed = 0; // of the counted rounds done, by the limits of the plan
  std::optional<double> eta_seconds;
  std::optional<WaitProgress> waiting;
  std::string note; // something a person should read: a failure, a retired variant
};

// What reads the machine beside a run: its readings are stored with the launch that runs.
struct RunMonitor {
  std::vector<MeterRow> meters;
  std::function<std::vector<MeterReading>()> take; // what was read since the last call
};

struct RunOptions {
  std::string worker_path;
  std::vector<std::string> worker_arguments{"engine"};
  std::optional<double> stop_after_seconds; // absent: the plan's budget, if it has one
  std::vector<std::string> cells;           // run these alone, by name; empty: all
  std::vector<std::string> redo;            // measure again: names of cells, or "disturbed"
  // Printed on stderr by the first SIGINT or SIGTERM: in a round, which is finished, and elsewhere.
  const char* acknowledge_in_round = nullptr;
  const char* acknowledge = nullptr;
  // Whether a cell with looks needs no further launch; needed where the plan has such cells.
  std::function<bool(const LedgerData&, std::int64_t cell)> decided;
  std::optional<QuietWait> quiet; // wait before the first launch and after a disturbed one
  bool fork = false; // results of another plan, build or data are set aside, not refused
  std::vector<CalibrationRow> calibrations = {}; // of this machine, for the ledger
  std::optional<RunMonitor> monitor = {};
  std::function<void(const RunProgress&)> progress;
  double setup_timeout_seconds = 600;      // building, gates, memory, a launch's first round
  double least_round_timeout_seconds = 60; // a round: max(this, 50 x the median round so far)
};

struct RunSummary {
  enum class Outcome { Complete, Incomplete };
  Outcome outcome =
      Outcome::Complete; // of the chosen cells; incomplete, too, with a launch given up
  PlanProgress progress;
  bool nothing_again = false; // --redo found no launch to measure again, so nothing was measured
  bool gave_up = false;       // it tried every launch that it still could, and some failed
  std::string stopped;        // why it is incomplete: "the time limit of 9m", "interrupted"
  std::vector<std::string>
      disturbed; // launches of this run beyond the limit: "varlen, timed launch 1: 31 of 36 rounds"
  std::vector<std::string> set_aside; // repetitions of this run that replaced nothing: as above
  std::set<std::string> try_again;    // what --redo is given for them
  std::string older_results;          // where --fork moved them, or ""
};

RunSummary run_plan(const Plan& plan, const std::string& directory, const RunOptions& options);

} // namespace assay
