// The covariates that a visit would have if it ran now: some threads compute for a moment, as those
// of a worker do, and the machine is read over that moment. An idle process waits for no core.
#pragma once

#include "core/ledger/ledger.h"
#include "profilers/machine/covariate_sampler.h"

namespace assay {

// `threads` 0: one for every core that this process may use.
Covariates sample_busy_machine(CovariateSampler& sampler, int threads, double seconds = 1);

} // namespace assay
