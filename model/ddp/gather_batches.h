// Every rank's batches, on every rank: what one process alone would have trained on.
#pragma once

#include <vector>

#include "model/config/train_config.h"
#include "model/data/batch.h"
#include "model/ddp/rank_group.h"

namespace assay {

// Collective. Equally many batches of [batch_rows, seq_len] from every rank; returns prepared ones,
// rank 0's first.
std::vector<Batch>
gather_batches(const std::vector<Batch>& own, const TrainConfig& config, RankGroup& ranks);

} // namespace assay
