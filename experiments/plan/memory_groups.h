// Which variants of a cell fit one process together.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"

namespace assay {

// Of all ranks that share a memory: those of a CPU; a GPU holds one. Counts of parameters are one
// rank's.
ModelSize size_in_memory(const TrainConfig& config);

// Bytes of a group of replicas: weights, gradients, optimizer and EMA of each, the control's second
// copy of the reference (the first config), and the activations of the largest, since visits take
// turns.
std::int64_t group_bytes(const std::vector<TrainConfig>& group);

// Of one variant in a process of its own.
std::int64_t alone_bytes(const TrainConfig& config);

// Indices of `levels` (the first is the reference) in groups; each starts with the reference and
// contains as many levels as fit `limit` bytes. A group of one level may exceed it: the caller
// checks.
std::vector<std::vector<std::size_t>> memory_groups(const std::vector<TrainConfig>& levels,
                                                    std::int64_t limit);

} // namespace assay
