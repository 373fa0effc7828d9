// Packing: documents, in a seeded order, laid end to end into rows without padding; each into the
// fullest row that takes it whole, with padding at the ends of rows; or, to measure what that
// saves, a row for each document and padding behind it. Plain vectors, no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "model/config/train_config.h"
#include "model/data/tokenizer.h"

namespace assay {

// The next position that a stream will hand out. Saved in checkpoints.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::uint64_t document = 0; // index into the epoch's shuffled order
  std::uint64_t offset = 0;   // positions of that document already handed out
  std::uint64_t batch = 0;    // batches handed out, where phases change their shape; else 0

  bool operator==(const DataPosition&) const = default;
};

// The order of one epoch: a permutation of `documents` that depends on seed and epoch alone (not on
// the standard library, whose shuffles differ).
std::vector<std::uint64_t>
shuffled(std::vector<std::uint64_t> documents, std::uint64_t seed, std::uint64_t epoch);

// A document ready for packing: the n ids of its text and its end of document, which give n-1
// positions.
struct TokenizedDocument {
  DataPosition start; // offset 0
  DataPosition after; // start of the document that follows in the order
  Encoding encoding;  // with the end of document, of 0 bytes

  std::uint64_t positions() const { return encoding.ids.empty() ? 0 : encoding.ids.size() - 1; }
};

inline constexpr std::int64_t kPaddingToken = 0;
inline constexpr std::int64_t kNoTarget = -100; // the loss ignores it

// B rows of T positions.
struct PackedBatch {
  std::vector<std::int64_t> tokens;  // [B*T]
  std::vector<std::int64_t> targets; // [B*T] the next token of the same document, or kNoTarget
  std::int64_t padding = 0;          // positions without a target
  std::vector<std::int32_t>
      cu_documents;       // cumulative ends, from 0 to B*T; a row's end is always one of them
  std::int64_t bytes = 0; // text bytes of the targets
};

using DocumentPtr = std::shared_ptr<const TokenizedDocument>;

// Cuts a sequence of documents into batches and records its exact position.
class Packer {
public:
  using Source = std::function<DocumentPtr()>; // the next document in order; never null
  // Padded: a row begins with the next document, or with what is left of one that is longer than a
  // row. BestFit: the next document, or part of one that is longer than a row, goes into the row
  // with the least room that takes it whole; the first that none takes begins the next batch.
  // Padding at a row's end is a segment of its own.
  Packer(std::int64_t rows, std::int64_t seq_len, Source source, Packing packing = Packing::Packed);

  PackedBatch next();
  // Of the batches that follow, from the position that was reached.
  void set_shape(std::int64_t rows, std::int64_t seq_len);
  DataPosition position() const { return position_; }
  // The source must continue with the document at `position`.
  void seek(const DataPosition& position);

private:
  void open_document();
  std::uint64_t left() const { return current_->positions() - position_.offset; }
  std::int64_t fill(PackedBatch& batch, std::int64_t room);
  PackedBatch best_fit();

  std::int64_t rows_;
  std::int64_t seq_len_;
  Source source_;
  Packing packing_;
  DocumentPtr current_;
  DataPosition position_;
};

} // namespace assay
