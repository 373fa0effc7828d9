#include "app/worker/verbs/restored.h"

#include "app/value_checks.h"
#include "app/worker/launch/identity.h"
#include "core/result.h"
#include "model/training/checkpoint.h"

namespace assay::worker {

Restored restore_model(const RestoreOptions& options) {
  const std::string& path = options.checkpoint;
  const Checkpoint checkpoint = value_or_throw(load_checkpoint(path));
  Restored restored;
  restored.step = checkpoint.meta.step;
  TrainConfig config = checkpoint.meta.config;
  value_or_throw(set_key_text(config, "device", options.device));
  if (!options.data.empty()) value_or_throw(set_key_text(config, "data", options.data));
  if (options.weights == Weights::Ema && config.ema_decay == 0)
    bad_input("{} was trained without an EMA (ema_decay = 0); leave --weights out", path);
  if (options.weights == Weights::Raw) config.ema_decay = 0;
  if (!options.linears.empty())
    value_or_throw(set_key_text(config, "eval_linears", options.linears));
  config.package = options.package;
  config.eval_forward = options.package.empty() ? EvalForward::Eager : EvalForward::Compiled;
  config.mla_attention = MlaAttention::FlashPadded; // on every device, and without plans
  restored.config = value_or_throw(resolve(config));
  open_device(restored.config);
  set_process(restored.config);
  if (!options.open_data)
    restored.source.tokenizer = open_tokenizer(config.tokenizer);
  else
    restored.source = open_data(restored.config);
  if (restored.source.tokenizer->fingerprint() != checkpoint.meta.tokenizer)
    bad_input("{} was trained with another tokenizer than '{}' is now", path, config.tokenizer);
  restored.trainer = std::make_unique<Trainer>(restored.config);
  restored.trainer->load_state_tensors(checkpoint.tensors);
  return restored;
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command.add_option("checkpoint", checkpoint, "checkpoint, or directory whose newest is taken")
      ->type_name("PATH")
      ->required();
}

void add_other_data(CLI::App& command, std::string& data) {
  command
      .add_option(
          "--data", data, "directory of text files, text file or JSONL (default: the checkpoint's)")
      ->type_name("PATH");
}

void add_context(CLI::App& command, std::int64_t& context) {
  command
      .add_option(
          "--context", context, "tokens that attention sees (default: seq_len of the training)")
      ->check(whole_number(1));
}

void add_device(CLI::App& command, std::string& device) {
  one_of(command.add_option("--device", device, "where it runs")->capture_default_str(),
         {"cpu", "cuda"});
}

CLI::Option* add_linears(CLI::App& command, std::string& linears) {
  return command.add_option(
      "--linears",
      linears,
      "linears of layers: full, as in training, or int8, in 8-bit integers (default: the "
      "checkpoint's)");
}

} // namespace assay::worker
