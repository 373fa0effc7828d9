#include "model/data/loader.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "core/result.h"
#include "core/span.h"
#include "model/data/seeded_random.h"
#include "model/layout/segments.h"

namespace assay {
namespace {

constexpr int kSyntheticBatches = 16;

at::Tensor
copy_matrix(const std::vector<std::int64_t>& values, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(const_cast<std::int64_t*>(values.data()), {rows, columns}, at::kLong)
      .clone();
}

PrefetchOptions prefetch_options(const TrainConfig& config, Split split) {
  const std::int64_t tokens = config.prefetch_batches * config.batch_rows * config.seq_len;
  if (tokens < 1) {
    bad_input("prefetch_batches ({}), batch_rows ({}) and seq_len ({}) must be positive",
              config.prefetch_batches,
              config.batch_rows,
              config.seq_len);
  }
  return {split,
          config.seed,
          config.tokenizer_threads,
          static_cast<std::uint64_t>(tokens),
          std::chrono::nanoseconds(std::llround(config.planted_document_ms * 1e6))};
}

// Names live as long as the program: a sink keeps them.
const char* threads_counter(std::int64_t threads) {
  switch (threads) {
  case 1:
    return "data/threads_1";
  case 2:
    return "data/threads_2";
  case 4:
    return "data/threads_4";
  case 8:
    return "data/threads_8";
  default:
    return "data/threads";
  }
}

const char* ahead_counter(std::int64_t batches) {
  switch (batches) {
  case 1:
    return "data/ahead_1";
  case 4:
    return "data/ahead_4";
  case 16:
    return "data/ahead_16";
  default:
    return "data/ahead";
  }
}

std::unique_ptr<Prefetch>
loader_of(const DataSource& source, const TrainConfig& config, Split split) {
  return std::make_unique<Prefetch>(
      source.corpus, source.tokenizer, prefetch_options(config, split));
}

// What tells the levels of the loader's rows apart.
std::vector<const char*> counters_of(const TrainConfig& config, bool synthetic) {
  return {threads_counter(config.tokenizer_threads),
          ahead_counter(config.prefetch_batches),
          synthetic ? "data/synthetic" : "data/text",
          config.planted_document_ms > 0 ? "data/planted_sleep" : "data/no_sleep"};
}

// Random tokens between the batch's borders; a target is the token that follows in the batch.
// Padding stays.
void make_synthetic(Batch& batch, std::int64_t vocab, SeededRandom& random) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(batch.tokens.numel()) + 1);
  for (std::int64_t& id : ids)
    id = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocab)));
  const std::int64_t rows = batch.tokens.size(0), columns = batch.tokens.size(1);
  batch.tokens = at::from_blob(ids.data(), {rows, columns}, at::kLong).clone();
  batch.targets = at::from_blob(ids.data() + 1, {rows, columns}, at::kLong)
                      .masked_fill(batch.targets.lt(0), kNoTarget);
}

// Positions that the split's documents give before they repeat, at least up to `enough`.
std::uint64_t distinct_positions(const DataSource& source, Split split, std::uint64_t enough) {
  std::uint64_t positions = 0; // a document of n ids and its end gives n
  for (const std::uint64_t document : source.corpus->documents(split)) {
    if (positions >= enough) break;
    const std::optional<std::string> text = source.corpus->read(document);
    if (text) positions += source.tokenizer->encode(*text).ids.size();
  }
  return positions;
}

} // namespace

DataSource open_data(const TrainConfig& config) {
  std::shared_ptr<const Tokenizer> tokenizer = open_tokenizer(config.tokenizer);
  if (config.vocab_size != 0 && config.vocab_size < tokenizer->vocab_size()) {
    bad_input("vocab_size is {}, but tokenizer '{}' has {} ids: set vocab_size to {} or more",
              config.vocab_size,
              config.tokenizer,
              tokenizer->vocab_size(),
              tokenizer->vocab_size());
  }
  return {std::make_shared<const Corpus>(Corpus::open(config.data)), std::move(tokenizer)};
}

std::string little_data(const DataSource& source, const TrainConfig& config) {
  const auto batch = static_cast<std::uint64_t>(config.batch_rows * config.seq_len);
  const std::uint64_t positions = distinct_positions(source, Split::Train, batch);
  if (positions >= batch) return "";
  return fmt::format(
      "the training documents of {} have {} token{}, and a batch takes {}: every batch "
      "repeats them, so the loss does not measure learning; give more text",
      config.data,
      positions,
      positions == 1 ? "" : "s",
      batch);
}

DataStream::DataStream(DataSource source, const TrainConfig& config, Split split)
    : config_(config), split_(split), source_(std::move(source)), rows_(config.batch_rows),
      seq_len_(config.seq_len), prefetch_(loader_of(source_, config, split)),
      packer_(
          rows_,
          seq_len_,
          [this] { return prefetch_->next(); },
          split == Split::Train ? config.packing : Packing::Packed) {
  const bool synthetic = config.data_source == TokenSource::Synthetic && split == Split::Train;
  counters_ = counters_of(config, synthetic);
  if (!synthetic) return;
  SeededRandom random(config.seed);
  std::vector<Batch> batches;
  for (int i = 0; i < kSyntheticBatches; ++i) {
    batches.push_back(next());
    make_synthetic(batches.back(), source_.tokenizer->vocab_size(), random);
  }
  synthetic_ = std::move(batches);
  prefetch_->pause();
}

Batch DataStream::next() {
  for (const char* name : counters_) count(name);
  if (!synthetic_.empty()) return synthetic_[served_++ % synthetic_.size()];
  if (config_.phase_batches > 0 && split_ == Split::Train) enter_phase();
  PackedBatch packed = packer_.next();
  std::vector<std::int32_t> row_ends(static_cast<std::size_t>(rows_ + 1));
  for (std::int64_t row = 0; row <= rows_; ++row) {
    row_ends[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(row * seq_len_);
  }
  Batch batch;
  batch.tokens = copy_matrix(packed.tokens, rows_, seq_len_);
  batch.targets = copy_matrix(packed.targets, rows_, seq_len_);
  batch.rows = segments_of(std::move(row_ends), at::kCPU);
  batch.documents = segments_of(std::move(packed.cu_documents), at::kCPU);
  batch.bytes = packed.bytes;
  batch.padding = packed.padding;
  return batch;
}

// Before each batch, so that a stream that seeks into a phase has its shape too.
void DataStream::enter_phase() {
  const auto length = static_cast<std::uint64_t>(config_.phase_batches);
  const bool resize = config_.loader_reshape == LoaderReshape::Resize;
  if (batches_ % length == 0) {
    count(resize ? "data/resized" : "data/recreated");
    if (!resize && batches_ > 0) make_anew();
  }
  const std::int64_t parts = std::int64_t{4} >> (batches_ / length % 3);
  if (seq_len_ != config_.seq_len / parts)
    set_shape(config_.batch_rows * parts, config_.seq_len / parts);
  ++batches_;
}

// As a training loop does that opens its data for each phase and skips the documents it has seen.
void DataStream::make_anew() {
  const auto start = std::chrono::steady_clock::now();
  DataPosition position = packer_.position();
  repeated_ += static_cast<std::int64_t>(std::exchange(position.offset, 0));
  earlier_wait_ns_ += prefetch_->wait_ns();
  source_ = open_data(config_);
  prefetch_ = loader_of(source_, config_, split_);
  prefetch_->seek(position);
  packer_.seek(position);
  earlier_wait_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
}

std::int64_t DataStream::wait_ns() const {
  return earlier_wait_ns_ + prefetch_->wait_ns();
}

DataPosition DataStream::position() const {
  if (!synthetic_.empty()) return {0, 0, served_};
  DataPosition position = packer_.position();
  position.batch = batches_;
  return position;
}

void DataStream::set_shape(std::int64_t batch_rows, std::int64_t seq_len) {
  if (batch_rows < 1 || seq_len < 1)
    bad_input("batch_rows ({}) and seq_len ({}) must be positive", batch_rows, seq_len);
  if (!synthetic_.empty()) bad_input("synthetic tokens keep their rows and length");
  rows_ = batch_rows;
  seq_len_ = seq_len;
  packer_.set_shape(rows_, seq_len_);
}

void DataStream::resume() {
  if (synthetic_.empty()) prefetch_->resume();
}

void DataStream::seek(const DataPosition& position) {
  if (!synthetic_.empty()) {
    served_ = position.offset;
    return;
  }
  batches_ = position.batch;
  const DataPosition text{position.epoch, position.document, position.offset};
  prefetch_->seek(text);
  packer_.seek(text);
}

} // namespace assay
