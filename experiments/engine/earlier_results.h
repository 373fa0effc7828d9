// What the existing results of a directory were measured with, and how they are set aside.
#pragma once

#include <string>

#include "experiments/engine/runner.h"

namespace assay {

// The build of the worker that `options` name; it logs into `log_directory`.
std::string worker_build(const RunOptions& options, const std::string& log_directory);

// Refuses a directory in which the plan's results do not belong: inside training data, which they
// would change while they are measured; or one without results that contains other files than a run
// leaves there, which a later --fork would move.
void refuse_directory(const std::string& directory, const Plan& plan);

// With --fork: results of another plan, build or data, or results that cannot be read, are moved to
// DIR.1, DIR.2, …, which is returned; "" when they may be continued. Nothing is ever deleted.
std::string set_aside(const Plan& plan, const std::string& directory, const RunOptions& options);

} // namespace assay
