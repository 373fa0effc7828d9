#include "kernels/attention/table.cuh"

#include "kernels/attention/cudnn_plans.h"

namespace assay::cudnn_plans {

void launch_table(const Table& table,
                  const std::int32_t* cu,
                  std::int64_t given,
                  cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(table.documents / kTableThreads + 1);
  fill_table<<<blocks, kTableThreads, 0, stream>>>(cu, given, table);
}

} // namespace assay::cudnn_plans
