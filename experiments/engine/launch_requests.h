// What the engine asks of workers for a launch, made from the plan's rows; and the workers.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/protocol/protocol.h"
#include "experiments/engine/runner.h"
#include "experiments/engine/schedule.h"
#include "experiments/engine/worker_process.h"
#include "experiments/evidence/owed/plan_state.h"

namespace assay {

// Of all variants that take part in the launch.
LaunchRequest
launch_request_of(const LedgerData& data, const Schedule& schedule, const LaunchTask& task);
// Of the variant's own process: this variant alone. Of unit "token" it takes the steps that it
// would take beside the baseline, which comes first in `all`.
LaunchRequest
request_of_variant(const LedgerData& data, const LaunchRequest& all, std::size_t variant);
// A launch of a cell's reference alone, whose rows are not kept.
LaunchRequest reference_request(const LedgerData& data, const CellRow& cell, std::string_view kind);

// The run's worker, or the variant's own program, with the variant's environment.
std::unique_ptr<WorkerProcess>
start_worker(const RunOptions& options, const LaunchVariant& variant, const std::string& log);

} // namespace assay
