// What `assay train` refuses before it trains: to mix its files with those of another training, and
// to go on with a model of another shape. Both throw bad input.
#pragma once

#include <string>

#include "model/config/train_config.h"

namespace assay::worker {

// Where a training writes: `named`, or the directory of the checkpoint `resume` ("": none), or
// runs/train. It must not hold another training.
std::string output_directory(const std::string& named, const std::string& resume);

// `given` must have every key that the tensors follow as `trained`, the configuration of checkpoint
// `at`, has it.
void refuse_other_shape(const TrainConfig& given,
                        const TrainConfig& trained,
                        const std::string& at);

} // namespace assay::worker
