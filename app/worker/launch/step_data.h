// The batches of a unit of training, as the loop takes them: from the loader's queue, then to the
// device with the layouts that the model needs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/data/loader.h"
#include "model/layout/batch.h"

namespace assay::worker {

// Which of a stream's batches a rank takes: `rank`, ranks + rank, 2 * ranks + rank …
struct RankShare {
  int rank = 0, ranks = 1;
};

// `count` prepared batches. Shows spans "data_wait" (the queue) and "host_to_device" (the copy and
// the layouts). Throws what the stream does.
std::vector<Batch> next_batches(DataStream& stream,
                                const TrainConfig& config,
                                std::int64_t count,
                                const RankShare& share = {});

} // namespace assay::worker
