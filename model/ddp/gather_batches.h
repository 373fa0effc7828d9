// Every rank's batches, on every rank: what one process alone would have trained on.
#pragma once

#include <vector>

#include "model/config/train_config.h"
#include "model/ddp/process_group.h"
#include "model/layout/batch.h"

namespace assay {

// Collective. Equally many batches of [batch_rows, seq_len] from every rank; returns prepared ones,
// rank 0's first.
std::vector<Batch>
gather_batches(const std::vector<Batch>& own, const TrainConfig& config, ProcessGroup& ranks);

} // namespace assay
