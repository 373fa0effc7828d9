// `assay evaluate`: loss of a checkpoint on held-out text.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>

#include "app/number_checks.h"
#include "app/worker/launch/identity.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "model/data/loader.h"
#include "model/layout/segments.h"

namespace assay::worker {

namespace {

struct EvaluateOptions {
  std::string checkpoint, data;
  std::string device = "cpu";
  std::int64_t batches = 16;
  bool train_split = false, json = false;
};

int evaluate(const EvaluateOptions& options) {
  Restored restored = restore_model(options.checkpoint, options.device, options.data);
  DataStream stream(
      restored.source, restored.config, options.train_split ? Split::Train : Split::HeldOut);
  std::vector<Batch> batches;
  for (std::int64_t i = 0; i < options.batches; ++i) {
    batches.push_back(stream.next());
    prepare(batches.back(), restored.config);
  }
  const EvalResult result = restored.trainer->evaluate(batches);
  const double nats = result.nats_per_token * static_cast<double>(result.tokens);
  const double bits_per_byte = nats / std::numbers::ln2 / static_cast<double>(result.bytes);
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::json{{"schema_version", 1},
                              {"checkpoint", options.checkpoint},
                              {"data", options.data},
                              {"step", restored.step},
                              {"tokens", result.tokens},
                              {"bytes", result.bytes},
                              {"nats_per_token", result.nats_per_token},
                              {"bits_per_byte", bits_per_byte},
                              {"weights", restored.config.ema_decay > 0 ? "ema" : "raw"}}
                   .dump(2));
  } else {
    fmt::print(
        "{:.4f} nats/token, {:.4f} bits/byte over {} tokens ({} bytes), {} weights of step {}\n",
        result.nats_per_token,
        bits_per_byte,
        result.tokens,
        result.bytes,
        restored.config.ema_decay > 0 ? "EMA" : "raw",
        restored.step);
  }
  return std::isfinite(result.nats_per_token) ? 0 : 1;
}

} // namespace

void add_evaluate(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand(
      "evaluate", "nats/token and bits/byte of a checkpoint on held-out documents");
  auto options = std::make_shared<EvaluateOptions>();
  command
      ->add_option(
          "checkpoint", options->checkpoint, "checkpoint, or directory whose newest is taken")
      ->type_name("PATH")
      ->required();
  command->add_option("--data", options->data, "directory of text files, text file or JSONL")
      ->type_name("PATH")
      ->required();
  one_of(command->add_option("--device", options->device, "where it runs")->capture_default_str(),
         {"cpu", "cuda"});
  command->add_option("--batches", options->batches, "batches to read")
      ->capture_default_str()
      ->check(whole_number(1));
  command->add_flag(
      "--train-split", options->train_split, "read training documents instead of held-out ones");
  command->add_flag("--json", options->json, "print JSON");
  command->footer("examples\n  assay evaluate runs/tiny --data corpus");
  command->callback([options, &exit_code] { exit_code = evaluate(*options); });
}

} // namespace assay::worker
