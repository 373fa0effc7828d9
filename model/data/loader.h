// DataStream: an endless, exactly resumable stream of batches of one split of a corpus.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/config/train_config.h"
#include "model/data/corpus.h"
#include "model/data/packing.h"
#include "model/data/prefetch.h"
#include "model/data/tokenizer.h"
#include "model/layout/batch.h"

namespace assay {

// What both splits share. Opened before the model is built, which needs the vocabulary's size.
struct DataSource {
  std::shared_ptr<const Corpus> corpus;
  std::shared_ptr<const Tokenizer> tokenizer;

  // Of both: equal where the same token ids come in the same order.
  std::string fingerprint() const {
    return "documents " + corpus->fingerprint() + ", tokenizer " + tokenizer->fingerprint();
  }
};

// Opens config.data and config.tokenizer. Throws bad input, also when the config's vocab_size (if
// set) is too small.
DataSource open_data(const TrainConfig& config);

// That the training documents have fewer tokens than one batch takes, in words, or "". Needs a
// resolved config.
std::string little_data(const DataSource& source, const TrainConfig& config);

class DataStream {
public:
  // Needs a resolved config (seq_len, batch_rows). Begins at position {0, 0, 0}; threads start at
  // once.
  DataStream(DataSource source, const TrainConfig& config, Split split);
  DataStream(const DataStream&) = delete; // the packer refers to the prefetch beside it
  DataStream& operator=(const DataStream&) = delete;

  // CPU tensors; prepare() (model/layout/segments.h) moves them and adds the chunk layout. An error
  // of a tokenizing thread is thrown by the call that reaches its document.
  Batch next();

  // Of synthetic tokens: offset is the batches handed out.
  DataPosition position() const;
  void seek(const DataPosition& position);

  // Rows and length of the batches that follow. No token is lost or handed out twice, as would be
  // where another stream takes the place of this one: threads keep what they have read. Throws bad
  // input for a shape without tokens, and for synthetic tokens, whose batches are made beforehand.
  // With config.phase_batches next() does it by itself.
  void set_shape(std::int64_t batch_rows, std::int64_t seq_len);

  // Returns once every thread is idle. While paused, next() serves what is ready and throws instead
  // of waiting.
  void pause() { prefetch_->pause(); }
  void resume();

  std::int64_t wait_ns() const; // for text, and for loaders made anew between phases
  // Positions handed out a second time, by loaders that begin their document again.
  std::int64_t repeated() const { return repeated_; }
  const DataSource& source() const { return source_; }

private:
  void enter_phase();
  void make_anew();

  const TrainConfig config_;
  const Split split_;
  DataSource source_;
  std::int64_t rows_;
  std::int64_t seq_len_;
  std::unique_ptr<Prefetch> prefetch_;
  Packer packer_;
  std::uint64_t batches_ = 0;        // handed out, where phases change the shape
  std::int64_t earlier_wait_ns_ = 0; // of loaders before this one, and to make it
  std::int64_t repeated_ = 0;
  std::vector<const char*> counters_; // that show how the batches are made
  std::vector<Batch> synthetic_;      // served in a circle; empty: text
  std::uint64_t served_ = 0;          // of them
};

} // namespace assay
