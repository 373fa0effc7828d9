#include "model/data/tokenizer.h"

#include <sentencepiece_processor.h>

#include <fmt/format.h>

#include <filesystem>

#include "core/result.h"
#include "core/text.h"
#include "model/data/text_file.h"

namespace assay {
namespace {

[[noreturn]] void unknown_id(std::int32_t id, std::int64_t vocab_size) {
  bad_input("token id {} is outside of the tokenizer's {} ids", id, vocab_size);
}

// Id = byte. 0x00 ends a document: text has no NUL bytes, files that have are binary.
class ByteTokenizer final : public Tokenizer {
public:
  std::int64_t vocab_size() const override { return 256; }
  std::int32_t end_of_document() const override { return 0; }
  std::string fingerprint() const override { return "bytes"; }

  Encoding encode(std::string_view text) const override {
    Encoding encoding;
    encoding.ids.reserve(text.size() + 1);
    for (const char c : text) encoding.ids.push_back(static_cast<unsigned char>(c));
    encoding.bytes.assign(text.size(), 1);
    return encoding;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id < 0 || id > 255) unknown_id(id, 256);
      if (id != end_of_document()) text.push_back(static_cast<char>(id));
    }
    return text;
  }
};

class SentencePieceTokenizer final : public Tokenizer {
public:
  explicit SentencePieceTokenizer(const std::string& path) {
    const std::string model = TextFile(path).read_all();
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok() || processor_.GetPieceSize() == 0) {
      bad_input("'{}' is not a SentencePiece model: give `bytes`, or a model made by `assay "
                "tokenizer train`",
                path);
    }
    if (processor_.eos_id() < 0) {
      bad_input("the SentencePiece model '{}' has no end-of-sentence piece, which must end "
                "documents: train it with "
                "eos_id >= 0 (`assay tokenizer train` does)",
                path);
    }
    fingerprint_ = "sentencepiece:" + content_hash(model);
  }

  std::int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::int32_t end_of_document() const override { return processor_.eos_id(); }
  std::string fingerprint() const override { return fingerprint_; }

  Encoding encode(std::string_view text) const override {
    sentencepiece::ImmutableSentencePieceText pieces;
    const auto status = processor_.Encode({text.data(), text.size()}, pieces.mutable_proto());
    if (!status.ok())
      internal_error(
          "SentencePiece could not encode a text of {} bytes: {}", text.size(), status.ToString());
    Encoding encoding;
    encoding.ids.reserve(pieces.pieces_size() + 1);
    encoding.bytes.reserve(pieces.pieces_size() + 1);
    for (std::size_t i = 0; i < pieces.pieces_size(); ++i) {
      const auto piece = pieces.pieces(static_cast<int>(i));
      encoding.ids.push_back(static_cast<std::int32_t>(piece.id()));
      encoding.bytes.push_back(static_cast<std::uint32_t>(piece.surface().size()));
    }
    return encoding;
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::vector<int> known;
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocab_size()) unknown_id(id, vocab_size());
      if (id != end_of_document()) known.push_back(id);
    }
    std::string text;
    const auto status = processor_.Decode(known, &text);
    if (!status.ok())
      internal_error("SentencePiece could not decode {} ids: {}", ids.size(), status.ToString());
    return text;
  }

private:
  sentencepiece::SentencePieceProcessor processor_;
  std::string fingerprint_;
};

} // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  std::error_code error;
  if (!std::filesystem::is_regular_file(name, error)) {
    bad_input("tokenizer '{}' does not exist: give `bytes`, or the path of a SentencePiece model "
              "(`assay tokenizer "
              "train` makes one)",
              name);
  }
  return std::make_unique<SentencePieceTokenizer>(name);
}

} // namespace assay
