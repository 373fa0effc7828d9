// CovariateSampler: what the host, and the GPU if there is one, did while a visit ran. The caller
// puts begin() before the visit's first time stamp and end() after its last, so that sampling is
// never inside a timed interval.
#pragma once

#include <optional>
#include <utility>

#include "core/ledger/ledger.h"
#include "profilers/machine/host_sampler.h"
#include "profilers/machine/nvml_sampler.h"
#include "profilers/machine/package_energy.h"

namespace assay {

class CovariateSampler {
public:
  CovariateSampler() = default; // host only
  explicit CovariateSampler(NvmlSampler gpu) : gpu_(std::move(gpu)) {}

  void begin();
  Covariates end(); // GPU values are those of this moment: the board still has the visit's clocks

private:
  HostSampler host_;
  std::optional<NvmlSampler> gpu_;
  PackageEnergy packages_;                  // read without a GPU
  std::optional<double> gpu_energy_j_ = {}; // at begin()
};

} // namespace assay
