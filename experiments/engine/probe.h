// Short launches that time a plan's references, for `assay plan`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/ledger/ledger.h"
#include "core/protocol/protocol.h"
#include "core/result.h"
#include "experiments/engine/runner.h"
#include "experiments/plan/plan.h"

namespace assay {

struct ProbeFailure {
  std::vector<std::string> cells; // that it is about
  std::string text;
  bool on_gpu = false;
};

struct PlanProbes {
  std::map<std::int64_t, ProbeResult> by_cell; // those that could be timed
  std::vector<ProbeFailure> failures;          // each cause once
  int skipped = 0; // cells on a GPU after one that failed there while none had been timed
};

// How long a unit of each cell's reference takes: one probe launch for every configuration that is
// a reference. For `assay plan`; writes only logs, into `log_directory`. `starting` is called
// before each launch of the cell that it is for. Ends early after Ctrl-C.
PlanProbes probe_plan(const Plan& plan,
                      const RunOptions& options,
                      const std::string& log_directory,
                      const std::function<void(const CellRow&)>& starting);

} // namespace assay
