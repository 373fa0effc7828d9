// Who evaluates when several ranks train one model (config key `validation_ranks`).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/ddp/process_group.h"
#include "model/layout/batch.h"

namespace assay {

const char* validation_span(ValidationRanks mode);

// The batches that this rank evaluates, of a list that is the same on every rank.
std::vector<Batch> validation_share(ValidationRanks mode,
                                    const ProcessGroup& ranks,
                                    const std::vector<Batch>& batches);

// The collectives after the evaluation. Given: loss times tokens (fp64, 0-dim, on the ranks'
// device), tokens and bytes of this rank's share; then those of all batches, on every rank. With
// None there is no collective: the other ranks keep their empty share, and nobody tells them more.
// With SeedBarrier rank 0 waits for ever, because the other ranks never come to its barrier.
void combine_validation(ValidationRanks mode,
                        ProcessGroup& ranks,
                        at::Tensor& loss_sum,
                        std::int64_t& tokens,
                        std::int64_t& bytes);

} // namespace assay
