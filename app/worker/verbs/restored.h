// A model read back from a checkpoint, for commands that do not train.
#pragma once

#include <CLI/CLI.hpp>

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

enum class Weights { Default, Raw, Ema }; // Default: EMA where the checkpoint has one

struct RestoreOptions {
  std::string checkpoint = {}, device = "cpu";
  bool open_data = false; // else the tokenizer alone
  std::string data = {};  // "": the checkpoint's
  Weights weights = Weights::Default;
  std::string linears = {}; // value of eval_linears; "": the checkpoint's
  std::string package = {}; // a compiled model that evaluates; "": none
};

// Its mla_attention is flash_padded, whatever the training took, since the others need a GPU. With
// raw weights its config().ema_decay is 0, so that nothing is averaged. Throws bad input for a
// damaged checkpoint, another tokenizer, or EMA weights that the checkpoint lacks.
Restored restore_model(const RestoreOptions& options);

// Options that these commands share: the checkpoint, `--data` for other text than its own,
// `--device`, and `--linears`.
void add_checkpoint(CLI::App& command, std::string& checkpoint);
void add_other_data(CLI::App& command, std::string& data);
void add_device(CLI::App& command, std::string& device);
// --context: tokens that attention sees; 0: not given.
void add_context(CLI::App& command, std::int64_t& context);
// Values of eval_linears; the default is the checkpoint's.
CLI::Option* add_linears(CLI::App& command, std::string& linears);

} // namespace assay::worker
