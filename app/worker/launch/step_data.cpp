#include "app/worker/launch/step_data.h"

#include <utility>

#include "core/span.h"
#include "model/layout/segments.h"

namespace assay::worker {

std::vector<Batch> next_batches(DataStream& stream,
                                const TrainConfig& config,
                                std::int64_t count,
                                const RankShare& share) {
  std::vector<Batch> batches;
  {
    const Span span("data_wait");
    for (std::int64_t i = 0; i < count; ++i)
      for (int rank = 0; rank < share.ranks; ++rank) {
        Batch batch = stream.next();
        if (rank == share.rank) batches.push_back(std::move(batch));
      }
  }
  const Span span("host_to_device");
  for (Batch& batch : batches) prepare(batch, config);
  return batches;
}

} // namespace assay::worker
