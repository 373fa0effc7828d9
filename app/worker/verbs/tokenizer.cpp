// `assay tokenizer train`: a SentencePiece model from a corpus, offline.
#include "model/data/tokenizer.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>

#include "app/command_line/program.h"
#include "app/value_checks.h"
#include "app/worker/worker.h"
#include "core/files/output_target.h"
#include "core/result.h"
#include "core/text.h"

namespace assay::worker {

namespace {

struct TokenizerOptions {
  std::string data, out = "tokenizer.model";
  std::int64_t vocab_size = 8192;
  TokenizerTraining training;
  double sample_mb = 16;
  bool json = false;
};

// SentencePiece's own words name an option of its own program.
TrainedTokenizer train_or_refuse(const Corpus& corpus,
                                 const TokenizerOptions& options,
                                 const TokenizerTraining& training) {
  try {
    return train_tokenizer(corpus, options.vocab_size, options.out, training);
  } catch (const Failure& failure) {
    static const std::regex too_few("required_chars\\. [0-9]+ vs ([0-9]+)");
    const std::string text = failure.what();
    if (std::smatch match; std::regex_search(text, match, too_few))
      bad_input("--vocab-size {}: at least {} pieces are needed for the characters of this text",
                options.vocab_size,
                match[1].str());
    throw;
  }
}

// Before anything that takes long.
void refuse_out(const std::string& out) {
  const std::filesystem::path target = output_target(out);
  std::error_code none;
  if (std::filesystem::exists(target, none) && target.extension() != ".model")
    bad_input("{}: exists, and is no .model: not replaced; choose another --out", out);
}

int train(const TokenizerOptions& options) {
  refuse_out(options.out);
  say_when_interrupted("interrupted: no model was written; a smaller --sample-mb takes less time");
  TokenizerTraining training = options.training;
  training.sample_bytes = static_cast<std::uint64_t>(options.sample_mb * 1e6);
  training.progress = [](std::string_view line) { fmt::print(stderr, "{}\n", line); };
  const Corpus corpus = Corpus::open(options.data);
  if (const std::string skipped = corpus.skipped().text(); !skipped.empty())
    fmt::print(stderr, "{}\n", skipped);
  const TrainedTokenizer result = train_or_refuse(corpus, options, training);
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::json{{"schema_version", 1},
                              {"out", options.out},
                              {"pieces", result.vocab_size},
                              {"sample_bytes", result.sample_bytes},
                              {"documents", result.sample_documents}}
                   .dump(2));
    return 0;
  }
  fmt::print("{}: {} pieces from {} of {} document{}\n",
             options.out,
             result.vocab_size,
             human_bytes(static_cast<double>(result.sample_bytes)),
             result.sample_documents,
             result.sample_documents == 1 ? "" : "s");
  return 0;
}

} // namespace

void add_tokenizer(CLI::App& parent, int& exit_code) {
  CLI::App* group = parent.add_subcommand("tokenizer", "tokenizers")->require_subcommand(1);
  CLI::App* command = group->add_subcommand("train", "train a SentencePiece model on a corpus");
  auto options = std::make_shared<TokenizerOptions>();
  command->add_option("--data", options->data, "directory of text files, text file or JSONL")
      ->type_name("PATH")
      ->required();
  command->add_option("--out", options->out, "model file to write")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--vocab-size", options->vocab_size, "pieces")
      ->capture_default_str()
      ->check(whole_number(260, 1'000'000));
  one_of(command->add_option("--model-type", options->training.model_type, "how pieces are learned")
             ->capture_default_str(),
         {"unigram", "bpe"});
  command->add_option("--sample-mb", options->sample_mb, "text to learn from")
      ->capture_default_str()
      ->check(at_least(0, true));
  command->add_option("--seed", options->training.seed, "seed of the sample")
      ->capture_default_str();
  command->add_option("--threads", options->training.threads, "training threads")
      ->capture_default_str()
      ->check(whole_number(1));
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "examples\n  assay tokenizer train --data corpus --vocab-size 16384 --out tok.model");
  command->callback([options, &exit_code] { exit_code = train(*options); });
}

} // namespace assay::worker
