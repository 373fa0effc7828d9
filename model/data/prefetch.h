// Prefetch: N threads read and tokenize documents ahead, bounded, and hand them out in the seeded
// order whatever N is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "model/data/corpus.h"
#include "model/data/packing.h"
#include "model/data/tokenizer.h"

namespace assay {

struct PrefetchOptions {
  Split split = Split::Train;
  std::uint64_t seed = 1;
  std::int64_t threads = 1;
  std::uint64_t max_tokens = 1; // no document is begun while this many finished tokens wait
  std::chrono::nanoseconds planted_wait{0}; // slept for each document
};

class Prefetch {
public:
  Prefetch(std::shared_ptr<const Corpus> corpus,
           std::shared_ptr<const Tokenizer> tokenizer,
           const PrefetchOptions& options);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  // The next document in order that has at least one position. Rethrows what its thread threw (and
  // does so again on the next call). Throws when the split has no position at all, or when paused
  // with nothing ready.
  DocumentPtr next();
  // Restarts the order at a document. Throws bad input when the position is outside of it.
  void seek(const DataPosition& position);

  void pause(); // returns once no thread works; documents that are ready stay
  void resume();

  std::int64_t wait_ns() const; // time that next() spent waiting, in all

private:
  struct Slot {
    DocumentPtr document; // null until tokenized
    std::exception_ptr error;
    bool ready() const { return document != nullptr || error != nullptr; }
  };
  struct Work {
    std::uint64_t sequence; // number of the slot since the last seek
    DataPosition start;
    DataPosition after;
    std::uint64_t document; // index in the corpus
  };

  void stop();
  void run();
  bool may_begin() const;
  Work begin_work();
  DocumentPtr tokenize(const Work& work) const;
  void finish(const Work& work, DocumentPtr document, const std::exception_ptr& error);
  void load_epoch(std::uint64_t epoch);

  const std::shared_ptr<const Corpus> corpus_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const PrefetchOptions options_;
  const std::vector<std::uint64_t> documents_; // of the split

  mutable std::mutex mutex_;
  std::condition_variable work_; // a thread may begin, or must stop
  std::condition_variable done_; // a slot became ready, or a thread became idle
  std::vector<std::uint64_t> order_;
  DataPosition cursor_;          // next document to begin
  std::deque<Slot> slots_;       // begun, in order
  std::uint64_t first_slot_ = 0; // sequence of slots_.front()
  std::uint64_t ready_tokens_ = 0;
  std::uint64_t barren_ = 0; // documents without a position, in a row
  std::int64_t busy_ = 0;
  std::int64_t wait_ns_ = 0;
  bool paused_ = false;
  bool stopping_ = false;
  std::vector<std::thread> threads_; // last: they use all of the above
};

} // namespace assay
