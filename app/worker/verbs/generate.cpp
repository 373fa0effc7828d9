// `assay generate`: text from a checkpoint.
#include "model/training/generate.h"

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/value_checks.h"
#include "app/worker/verbs/restored.h"
#include "app/worker/worker.h"
#include "core/text.h"

namespace assay::worker {

namespace {

struct GenerateOptions {
  std::string checkpoint, prompt = "\n", device = "cpu", linears;
  std::int64_t tokens = 200, top_k = 40, context = 0;
  double temperature = 0.8;
  std::uint64_t seed = 1;
  bool json = false;
};

int generate_text(const GenerateOptions& options) {
  Restored restored = restore_model(
      {.checkpoint = options.checkpoint, .device = options.device, .linears = options.linears});
  const Tokenizer& tokenizer = *restored.source.tokenizer;
  std::vector<std::int64_t> prompt;
  for (const std::int32_t id : tokenizer.encode(options.prompt).ids) prompt.push_back(id);
  if (prompt.empty()) bad_input("the prompt is empty; give --prompt TEXT");
  const std::vector<std::int64_t> ids = generate(*restored.trainer,
                                                 prompt,
                                                 {.max_tokens = options.tokens,
                                                  .temperature = options.temperature,
                                                  .top_k = options.top_k,
                                                  .seed = options.seed,
                                                  .context = options.context,
                                                  .stop_token = tokenizer.end_of_document()});
  std::vector<std::int32_t> text_ids;
  for (const std::int64_t id : ids) text_ids.push_back(static_cast<std::int32_t>(id));
  const std::string text = printable(tokenizer.decode(text_ids));
  if (options.json)
    fmt::print("{}\n",
               nlohmann::json{{"schema_version", 1},
                              {"checkpoint", options.checkpoint},
                              {"prompt", options.prompt},
                              {"text", text},
                              {"tokens", text_ids.size()},
                              {"seed", options.seed}}
                   .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  else
    fmt::print("{}{}\n", printable(options.prompt), text);
  return 0;
}

} // namespace

void add_generate(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand("generate", "sample text from a checkpoint");
  auto options = std::make_shared<GenerateOptions>();
  add_checkpoint(*command, options->checkpoint);
  command->add_option("--prompt", options->prompt, "text to continue (default: a new line)");
  command
      ->add_option("--tokens",
                   options->tokens,
                   "tokens to add at most; the text ends where the model ends its document")
      ->capture_default_str()
      ->check(whole_number(1));
  add_context(*command, options->context);
  command->add_option("--temperature", options->temperature, "0: always the likeliest token")
      ->capture_default_str()
      ->check(at_least(0));
  command->add_option("--top-k", options->top_k, "sample among the k likeliest; 0: all")
      ->capture_default_str()
      ->check(whole_number(0));
  command->add_option("--seed", options->seed, "seed of the random choice of tokens")
      ->capture_default_str();
  add_device(*command, options->device);
  one_of(add_linears(*command, options->linears), {"full", "int8"});
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "examples\n  assay generate runs/tiny --prompt \"Once upon a time\" --tokens 100");
  command->callback([options, &exit_code] { exit_code = generate_text(*options); });
}

} // namespace assay::worker
