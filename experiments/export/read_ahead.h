// ReadAhead: a cursor that runs on a thread and a connection of its own, a few batches before its
// reader, so that SQLite sorts and decodes rows while the reader writes text.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/sqlite/database.h"

namespace assay {

// Cursor: constructed from (const Database&, range), bool next(Item&). The file may not be written
// meanwhile.
template <class Cursor, class Item> class ReadAhead {
public:
  template <class Range>
  ReadAhead(const std::string& path, Range range)
      : thread_([this, path, range] { fill(path, range); }) {}

  ~ReadAhead() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // False at the end. Throws what the cursor threw.
  bool next(Item& item) {
    if (place_ == batch_.size() && !take_batch()) return false;
    item = batch_[place_++];
    return true;
  }

private:
  static constexpr std::size_t kBatch = 2048, kBatches = 4; // under 2 MB for the largest items

  bool take_batch() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_ || !queue_.empty(); });
    if (queue_.empty()) {
      if (error_) std::rethrow_exception(error_);
      return false;
    }
    batch_ = std::move(queue_.front());
    queue_.pop_front();
    place_ = 0;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  // False: nobody reads any more.
  bool print_batch(std::vector<Item> batch) {
    if (batch.empty()) return true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stop_ || queue_.size() < kBatches; });
    if (stop_) return false;
    queue_.push_back(std::move(batch));
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  template <class Range> void read(const std::string& path, Range range) {
    const Database database(path, Database::Mode::Immutable);
    Cursor cursor(database, range);
    bool more = true;
    while (more) {
      std::vector<Item> batch;
      batch.reserve(kBatch);
      Item item;
      while (batch.size() < kBatch) {
        more = cursor.next(item);
        if (!more) break;
        batch.push_back(item);
      }
      if (!print_batch(std::move(batch))) return;
    }
  }

  template <class Range> void fill(const std::string& path, Range range) {
    std::exception_ptr error;
    try {
      read(path, range);
    } catch (...) {
      error = std::current_exception(); // next() throws it
    }
    {
      const std::lock_guard lock(mutex_);
      error_ = error;
      done_ = true;
    }
    changed_.notify_all();
  }

  std::vector<Item> batch_; // the reader's
  std::size_t place_ = 0;
  std::mutex mutex_; // guards what follows
  std::condition_variable changed_;
  std::deque<std::vector<Item>> queue_;
  bool stop_ = false, done_ = false;
  std::exception_ptr error_;
  std::thread thread_; // last: it uses all of the above
};

} // namespace assay
