// A model read back from a checkpoint, for commands that do not train.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/data/loader.h"
#include "model/training/trainer.h"

namespace assay::worker {

struct Restored {
  TrainConfig config;
  std::int64_t step = 0;
  DataSource source;
  std::unique_ptr<Trainer> trainer;
};

// `data` empty: only the tokenizer is opened. Throws bad input for a damaged checkpoint or another
// tokenizer.
Restored
restore_model(const std::string& checkpoint, const std::string& device, const std::string& data);

} // namespace assay::worker
