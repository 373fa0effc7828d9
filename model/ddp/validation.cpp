#include "model/ddp/validation.h"

#include <cstddef>

#include "core/result.h"

namespace assay {

const char* validation_span(ValidationRanks mode) {
  switch (mode) {
  case ValidationRanks::Rank0:
    return "validation/rank0";
  case ValidationRanks::Sharded:
    return "validation/sharded";
  case ValidationRanks::None:
    return "validation/none";
  case ValidationRanks::SeedBarrier:
    return "validation/seed_barrier";
  }
  internal_error("unknown way to share an evaluation");
}

std::vector<Batch> validation_share(ValidationRanks mode,
                                    const ProcessGroup& ranks,
                                    const std::vector<Batch>& batches) {
  if (mode != ValidationRanks::Sharded) return ranks.rank() == 0 ? batches : std::vector<Batch>{};
  std::vector<Batch> share;
  const auto size = static_cast<std::size_t>(ranks.size());
  for (auto i = static_cast<std::size_t>(ranks.rank()); i < batches.size(); i += size)
    share.push_back(batches[i]);
  return share;
}

void combine_validation(ValidationRanks mode,
                        ProcessGroup& ranks,
                        at::Tensor& loss_sum,
                        std::int64_t& tokens,
                        std::int64_t& bytes) {
  if (mode == ValidationRanks::None) return;
  if (mode == ValidationRanks::SeedBarrier) {
    if (ranks.rank() == 0) ranks.barrier("validation");
    return;
  }
  at::Tensor sums =
      at::tensor({0.0, static_cast<double>(tokens), static_cast<double>(bytes)}, at::kDouble)
          .to(loss_sum.device());
  sums[0].copy_(loss_sum);
  if (mode == ValidationRanks::Rank0) {
    ranks.barrier("validation");
    ranks.broadcast(sums, 0, "validation/sums");
  } else {
    ranks.all_reduce(sums, "validation/sums");
  }
  const at::Tensor host = sums.cpu();
  const double* values = host.const_data_ptr<double>();
  loss_sum = sums[0];
  tokens = static_cast<std::int64_t>(values[1]);
  bytes = static_cast<std::int64_t>(values[2]);
}

} // namespace assay
