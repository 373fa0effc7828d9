// Whether this machine has the GPU that a plan needs, before anything is printed or written.
#pragma once

#include <string>
#include <vector>

#include "experiments/plan/plan.h"

namespace assay::cli {

struct GpuNeed {
  std::string directory;               // of the results, which may be complete
  std::vector<std::string> cells = {}; // that will run; empty: all
  bool anew = false;                   // whatever is there, launches will be made
};

// Bad input where launches are left to be made on a GPU and the worker finds none.
void require_gpu(const Plan& plan, const GpuNeed& need);

} // namespace assay::cli
