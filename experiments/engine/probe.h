// Short launches that time a plan's references, for `assay plan`.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/ledger/ledger.h"
#include "core/protocol/protocol.h"
#include "core/result.h"
#include "experiments/engine/runner.h"
#include "experiments/plan/plan.h"

namespace assay {

// How long a unit of each cell's reference takes: one probe launch for every configuration that is
// a reference. For `assay plan`; writes only logs, into `log_directory`. `starting` is called
// before each launch of the cell that it is for.
Result<std::map<std::int64_t, ProbeResult>>
probe_plan(const Plan& plan,
           const RunOptions& options,
           const std::string& log_directory,
           const std::function<void(const CellRow&)>& starting);

} // namespace assay
