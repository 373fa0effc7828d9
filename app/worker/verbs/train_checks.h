// What `assay train` refuses before it trains: to mix its files with those of another training, and
// to go on with a model of another shape. These throw bad input. And what it only names.
#pragma once

#include <string>

#include "model/config/train_config.h"

namespace assay::worker {

// Where a training writes: `named`, or the directory of the checkpoint `resume` ("": none), or
// runs/train.
std::string output_directory(const std::string& named, const std::string& resume);

// `out` must be a directory or nothing yet, and hold no other training, nor checkpoints that come
// after `resume`.
void refuse_other_training(const std::string& out, const std::string& resume);

// `given` must have every key that the tensors follow as `trained`, the configuration of checkpoint
// `at`, has it.
void refuse_other_shape(const TrainConfig& given,
                        const TrainConfig& trained,
                        const std::string& at);

// "seed = 9 (was 1)": keys that change what is trained and that `given` has otherwise than the
// checkpoint, but for the length of the schedule; "" without one.
std::string changed_keys(const TrainConfig& given, const TrainConfig& trained);

} // namespace assay::worker
