// Tokenizers: text to ids and back. Bytes by default; a SentencePiece model when its path is given.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/data/corpus.h"

namespace assay {

// The ids of a text, and how many of its bytes each id represents (their sum is the length of the
// text).
struct Encoding {
  std::vector<std::int32_t> ids;
  std::vector<std::uint32_t> bytes;
};

// Immutable: every method may be called from any thread.
class Tokenizer {
public:
  virtual ~Tokenizer() = default;
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t end_of_document() const = 0;
  virtual Encoding encode(std::string_view text) const = 0; // without the end of document
  virtual std::string
  decode(const std::vector<std::int32_t>& ids) const = 0; // the end of document has no text
  // Names the mapping: weights trained under one fingerprint mean nothing under another.
  virtual std::string fingerprint() const = 0;
};

// "bytes", or the path of a SentencePiece model. Throws bad input.
std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name);

struct TokenizerTraining {
  std::uint64_t sample_bytes = std::uint64_t{16}
                               << 20; // text taken from randomly chosen training documents
  std::uint64_t seed = 1;
  int threads = 1;
  std::string model_type = "unigram"; // "unigram" or "bpe"
  std::function<void(std::string_view line)>
      progress; // called from the calling thread; may be empty
};

struct TrainedTokenizer {
  std::int64_t vocab_size = 0;
  std::uint64_t sample_bytes = 0;
  std::uint64_t sample_documents = 0;
  std::string fingerprint;
};

// Trains a SentencePiece model on a sample of the corpus, offline, and writes it to `out_path`
// (atomically). Lossless on UTF-8: no normalization, unknown characters fall back to bytes. Throws
// bad input.
TrainedTokenizer train_tokenizer(const Corpus& corpus,
                                 std::int64_t vocab_size,
                                 const std::string& out_path,
                                 const TokenizerTraining& options = {});

} // namespace assay
