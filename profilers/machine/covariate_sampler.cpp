#include "profilers/machine/covariate_sampler.h"

namespace assay {

void CovariateSampler::begin() {
  host_.begin();
  if (gpu_)
    gpu_energy_j_ = gpu_->energy_j();
  else
    packages_.begin();
}

Covariates CovariateSampler::end() {
  std::optional<double> energy = gpu_ ? gpu_->energy_j() : packages_.end(); // before all else
  if (gpu_ && energy)
    energy = gpu_energy_j_ && *energy >= *gpu_energy_j_ ? std::optional(*energy - *gpu_energy_j_)
                                                        : std::nullopt;
  Covariates result = host_.end();
  result.energy_j = energy;
  if (gpu_) gpu_->sample(result);
  return result;
}

} // namespace assay
