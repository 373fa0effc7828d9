// Borders of packed documents in the forms that the layers of a configuration need. Built once per
// batch, untimed.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// Puts the batch on the config's device and fills what layouts_of(config) names of its segments,
// and max_len; carry and first_position are the caller's. Needs a resolved config.
void prepare(Batch& batch, const TrainConfig& config);

// Borders without layouts, `cu` on `device`. cu_host: cumulative ends, from 0.
Segments segments_of(std::vector<std::int32_t> cu_host,
                     at::Device device,
                     BatchCopy copy = BatchCopy::Pageable);

// An unprepared CPU batch of [B, T] tokens whose documents end at `cu_documents`; row ends are
// added as borders.
Batch make_batch(at::Tensor tokens, at::Tensor targets, std::vector<std::int32_t> cu_documents);

at::Device torch_device(Device device); // Cuda: the current board

} // namespace assay
