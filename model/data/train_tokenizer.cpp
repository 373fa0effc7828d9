// Trains SentencePiece models. Apart from tokenizer.cpp because only one command needs the trainer.
#include <sentencepiece_trainer.h>

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <unordered_map>

#include "core/files/atomic_file.h"
#include "core/result.h"
#include "core/text.h"
#include "model/data/packing.h"
#include "model/data/tokenizer.h"

namespace assay {
namespace {

constexpr std::int64_t kMinVocab =
    256 + 2 + 1; // bytes, unknown, end of document, and one piece at least
constexpr std::int64_t kMaxVocab = 1'000'000;
constexpr std::size_t kMaxLine =
    4096; // SentencePiece leaves longer lines out (max_sentence_length)
constexpr auto kHeartbeat = std::chrono::seconds(5);

struct Sample {
  std::vector<std::string> lines;
  std::uint64_t bytes = 0;
  std::uint64_t documents = 0;
};

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

// Lines without their newline: a newline is learned by nobody and encoded as its byte, so models
// stay lossless.
void add_lines(std::string_view text, Sample& sample) {
  while (!text.empty()) {
    std::size_t end = std::min(text.find('\n'), text.size());
    std::size_t next = end + 1;
    if (end > kMaxLine) {
      for (end = kMaxLine; end > kMaxLine - 4 && continues_character(text[end]);) --end;
      next = end;
    }
    if (end > 0) sample.lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(next, text.size()));
  }
}

Sample draw_sample(const Corpus& corpus, const TokenizerTraining& options) {
  Sample sample;
  for (const std::uint64_t document : shuffled(corpus.documents(Split::Train), options.seed, 0)) {
    if (sample.bytes >= options.sample_bytes) break;
    std::optional<std::string> text = corpus.read(document);
    if (!text || text->empty()) continue;
    if (text->size() > options.sample_bytes - sample.bytes)
      text->resize(options.sample_bytes - sample.bytes);
    sample.bytes += text->size();
    ++sample.documents;
    add_lines(*text, sample);
  }
  if (sample.lines.empty())
    bad_input("data '{}' contains no text to train a tokenizer on: add documents", corpus.path());
  return sample;
}

class Lines final : public sentencepiece::SentenceIterator {
public:
  explicit Lines(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ >= lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

private:
  const std::vector<std::string>& lines_;
  std::size_t at_ = 0;
};

std::unordered_map<std::string, std::string> trainer_arguments(std::int64_t vocab_size,
                                                               const TokenizerTraining& options) {
  return {{"vocab_size", std::to_string(vocab_size)},
          {"model_type", options.model_type},
          {"num_threads", std::to_string(options.threads)},
          {"max_sentence_length", std::to_string(kMaxLine + 4)},
          {"character_coverage", "0.9995"},
          {"byte_fallback", "true"},
          {"split_digits", "true"},
          {"allow_whitespace_only_pieces", "true"},
          {"normalization_rule_name", "identity"},
          {"remove_extra_whitespaces", "false"},
          {"add_dummy_prefix", "false"},
          {"unk_id", "0"},
          {"eos_id", "1"},
          {"bos_id", "-1"},
          {"pad_id", "-1"},
          {"minloglevel", "2"}};
}

// SentencePiece's reason without its own source location: "… [condition] Vocabulary size too high
// (…). Please …".
std::string reason(const sentencepiece::util::Status& status) {
  const std::string text = status.ToString();
  const std::size_t location = text.rfind("] ");
  std::string cause = printable(location == std::string::npos ? text : text.substr(location + 2));
  while (cause.ends_with('.')) cause.pop_back();
  return cause;
}

void report(const TokenizerTraining& options, const std::string& line) {
  if (options.progress) options.progress(line);
}

// Trains on another thread, so that this one can report that it is alive.
std::string train_model(const Sample& sample,
                        std::int64_t vocab_size,
                        const TokenizerTraining& options,
                        const std::string& data) {
  std::string model;
  std::future<sentencepiece::util::Status> training = std::async(std::launch::async, [&] {
    Lines lines(sample.lines);
    return sentencepiece::SentencePieceTrainer::Train(
        trainer_arguments(vocab_size, options), &lines, &model);
  });
  const auto begin = std::chrono::steady_clock::now();
  while (training.wait_for(kHeartbeat) != std::future_status::ready) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    report(options,
           fmt::format("training {} pieces … {}", vocab_size, human_seconds(elapsed.count())));
  }
  const sentencepiece::util::Status status = training.get();
  if (!status.ok()) {
    bad_input("a vocabulary of {} cannot be trained on {} of '{}': {}; give more text "
              "or another size",
              vocab_size,
              human_bytes(static_cast<double>(sample.bytes)),
              data,
              reason(status));
  }
  return model;
}

} // namespace

TrainedTokenizer train_tokenizer(const Corpus& corpus,
                                 std::int64_t vocab_size,
                                 const std::string& out_path,
                                 const TokenizerTraining& options) {
  if (vocab_size < kMinVocab || vocab_size > kMaxVocab) {
    bad_input(
        "a vocabulary of {} is not possible: give {} to {}", vocab_size, kMinVocab, kMaxVocab);
  }
  if (options.model_type != "unigram" && options.model_type != "bpe") {
    bad_input("unknown tokenizer model '{}': give unigram or bpe", options.model_type);
  }
  const Sample sample = draw_sample(corpus, options);
  report(options,
         fmt::format("sampled {} from {} document{}",
                     human_bytes(static_cast<double>(sample.bytes)),
                     sample.documents,
                     sample.documents == 1 ? "" : "s"));
  const std::string model = train_model(sample, vocab_size, options, corpus.path());
  write_file_atomically(out_path, model);
  const std::unique_ptr<Tokenizer> trained = open_tokenizer(out_path);
  return {trained->vocab_size(), sample.bytes, sample.documents, trained->fingerprint()};
}

} // namespace assay
