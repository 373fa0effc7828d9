#include "profilers/machine/covariate_sampler.h"

namespace assay {

Covariates CovariateSampler::end() {
  Covariates result = host_.end();
  if (gpu_) gpu_->sample(result);
  return result;
}

} // namespace assay
