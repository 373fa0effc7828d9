// What the kernels share: the size of a block, and tiles.
#pragma once

#include "kernels/delta_rule/problem.h"
#include "kernels/tiles.cuh"

namespace assay::delta_rule {

using namespace simt;

constexpr int kThreads = 128;

} // namespace assay::delta_rule
