#include "model/data/packing.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/result.h"
#include "model/data/seeded_random.h"

namespace assay {

std::vector<std::uint64_t>
shuffled(std::vector<std::uint64_t> documents, std::uint64_t seed, std::uint64_t epoch) {
  SeededRandom random(mix(seed) ^ epoch);
  for (std::size_t i = documents.size(); i > 1; --i)
    std::swap(documents[i - 1], documents[random.below(i)]);
  return documents;
}

namespace {

void pad(PackedBatch& batch, std::int64_t positions) {
  if (positions == 0) return;
  const std::size_t size = batch.tokens.size() + static_cast<std::size_t>(positions);
  batch.tokens.resize(size, kPaddingToken);
  batch.targets.resize(size, kNoTarget);
  batch.cu_documents.push_back(static_cast<std::int32_t>(size));
  batch.padding += positions;
}

// Behind what `batch` holds.
void append(PackedBatch& batch, const PackedBatch& row) {
  const auto begin = static_cast<std::int32_t>(batch.tokens.size());
  for (const std::int32_t end : row.cu_documents) batch.cu_documents.push_back(begin + end);
  batch.tokens.insert(batch.tokens.end(), row.tokens.begin(), row.tokens.end());
  batch.targets.insert(batch.targets.end(), row.targets.begin(), row.targets.end());
  batch.padding += row.padding;
  batch.bytes += row.bytes;
}

std::int64_t room_of(const PackedBatch& row, std::int64_t seq_len) {
  return seq_len - std::ssize(row.tokens);
}

} // namespace

Packer::Packer(std::int64_t rows, std::int64_t seq_len, Source source, Packing packing)
    : rows_(rows), seq_len_(seq_len), source_(std::move(source)), packing_(packing) {
  if (rows <= 0 || seq_len <= 0)
    bad_input("batch_rows ({}) and seq_len ({}) must be positive", rows, seq_len);
}

void Packer::seek(const DataPosition& position) {
  current_.reset();
  position_ = position;
}

// The next document, or what is left of it, in parts of at most a row.
PackedBatch Packer::best_fit() {
  std::vector<PackedBatch> rows(static_cast<std::size_t>(rows_));
  for (;;) {
    open_document();
    const std::int64_t length = std::min(static_cast<std::int64_t>(left()), seq_len_);
    PackedBatch* best = nullptr;
    for (PackedBatch& row : rows) {
      const std::int64_t room = room_of(row, seq_len_);
      if (room >= length && (best == nullptr || room < room_of(*best, seq_len_))) best = &row;
    }
    if (best == nullptr) break;
    (void)fill(*best, length);
  }
  PackedBatch batch;
  batch.cu_documents.push_back(0);
  for (PackedBatch& row : rows) {
    pad(row, room_of(row, seq_len_));
    append(batch, row);
  }
  return batch;
}

PackedBatch Packer::next() {
  if (packing_ == Packing::BestFit) return best_fit();
  PackedBatch batch;
  batch.tokens.reserve(static_cast<std::size_t>(rows_ * seq_len_));
  batch.targets.reserve(static_cast<std::size_t>(rows_ * seq_len_));
  batch.cu_documents.push_back(0);
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (packing_ == Packing::Padded)
      pad(batch, seq_len_ - fill(batch, seq_len_));
    else
      for (std::int64_t room = seq_len_; room > 0;) room -= fill(batch, room);
  }
  return batch;
}

void Packer::set_shape(std::int64_t rows, std::int64_t seq_len) {
  rows_ = rows;
  seq_len_ = seq_len;
}

void Packer::open_document() {
  if (current_ != nullptr) return;
  current_ = source_();
  if (position_.offset == 0) position_ = current_->start;
  const bool same =
      position_.epoch == current_->start.epoch && position_.document == current_->start.document;
  if (same && position_.offset < current_->positions()) return;
  current_.reset();
  bad_input("the data position (epoch {}, document {}, offset {}) does not exist: the data or "
            "the tokenizer changed",
            position_.epoch,
            position_.document,
            position_.offset);
}

// Appends one segment of at most `room` positions and returns its length, which is at least 1.
std::int64_t Packer::fill(PackedBatch& batch, std::int64_t room) {
  open_document();
  const Encoding& encoding = current_->encoding;
  const std::uint64_t take = std::min<std::uint64_t>(static_cast<std::uint64_t>(room), left());
  const auto first = static_cast<std::ptrdiff_t>(position_.offset);
  const auto last = static_cast<std::ptrdiff_t>(position_.offset + take);
  batch.tokens.insert(
      batch.tokens.end(), encoding.ids.begin() + first, encoding.ids.begin() + last);
  batch.targets.insert(
      batch.targets.end(), encoding.ids.begin() + first + 1, encoding.ids.begin() + last + 1);
  batch.bytes += std::accumulate(
      encoding.bytes.begin() + first + 1, encoding.bytes.begin() + last + 1, std::int64_t{0});
  batch.cu_documents.push_back(static_cast<std::int32_t>(batch.tokens.size()));

  position_.offset += take;
  if (position_.offset == current_->positions()) {
    position_ = current_->after;
    current_.reset();
  }
  return static_cast<std::int64_t>(take);
}

} // namespace assay
