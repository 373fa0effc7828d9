#include "model/data/prefetch.h"

#include <chrono>
#include <utility>

#include "core/result.h"

namespace assay {

Prefetch::Prefetch(std::shared_ptr<const Corpus> corpus,
                   std::shared_ptr<const Tokenizer> tokenizer,
                   const PrefetchOptions& options)
    : corpus_(std::move(corpus)), tokenizer_(std::move(tokenizer)), options_(options),
      documents_(corpus_->documents(options.split)) {
  if (options.threads < 1)
    bad_input("tokenizer_threads is {}: at least 1 is needed", options.threads);
  load_epoch(0);
  try {
    for (std::int64_t i = 0; i < options.threads; ++i) threads_.emplace_back([this] { run(); });
  } catch (...) {
    stop();
    throw;
  }
}

Prefetch::~Prefetch() {
  stop();
}

void Prefetch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetch::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || may_begin(); });
    if (stopping_) return;
    const Work work = begin_work();
    ++busy_;
    lock.unlock();
    DocumentPtr document;
    std::exception_ptr error;
    try {
      document = tokenize(work);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    finish(work, std::move(document), error);
    done_.notify_all();
  }
}

bool Prefetch::may_begin() const {
  return !paused_ && ready_tokens_ < options_.max_tokens;
}

Prefetch::Work Prefetch::begin_work() {
  Work work{first_slot_ + slots_.size(), cursor_, cursor_, order_[cursor_.document]};
  if (++cursor_.document == order_.size()) {
    cursor_ = {cursor_.epoch + 1, 0, 0};
    load_epoch(cursor_.epoch);
  }
  work.after = cursor_;
  slots_.emplace_back();
  return work;
}

DocumentPtr Prefetch::tokenize(const Work& work) const {
  auto document = std::make_shared<TokenizedDocument>();
  document->start = work.start;
  document->after = work.after;
  if (options_.planted_wait.count() > 0) std::this_thread::sleep_for(options_.planted_wait);
  if (const std::optional<std::string> text = corpus_->read(work.document)) {
    document->encoding = tokenizer_->encode(*text);
    document->encoding.ids.push_back(tokenizer_->end_of_document());
    document->encoding.bytes.push_back(0);
  }
  return document;
}

// An error counts as a full queue: the stream cannot go past it, so nothing behind it is begun.
void Prefetch::finish(const Work& work, DocumentPtr document, const std::exception_ptr& error) {
  ready_tokens_ += error ? options_.max_tokens : document->encoding.ids.size();
  Slot& slot = slots_[work.sequence - first_slot_];
  slot.document = std::move(document);
  slot.error = error;
}

void Prefetch::load_epoch(std::uint64_t epoch) {
  order_ = shuffled(documents_, options_.seed, epoch);
}

DocumentPtr Prefetch::next() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto front_ready = [this] { return !slots_.empty() && slots_.front().ready(); };
    if (!front_ready()) {
      if (paused_)
        internal_error(
            "a batch was asked for while the data stream is paused and nothing is ready");
      const auto begin = std::chrono::steady_clock::now();
      done_.wait(lock, front_ready);
      wait_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
    }
    if (slots_.front().error) std::rethrow_exception(slots_.front().error);
    DocumentPtr document = std::move(slots_.front().document);
    slots_.pop_front();
    ++first_slot_;
    ready_tokens_ -= document->encoding.ids.size();
    work_.notify_all();
    if (document->positions() > 0) {
      barren_ = 0;
      return document;
    }
    // Two epochs, because the one document with text may be first in one order and last in the
    // next.
    if (++barren_ >= 2 * documents_.size()) {
      bad_input(
          "the {} split of data '{}' contains no text to predict: all of its {} documents are "
          "binary or shorter than "
          "one token; add documents",
          to_string(options_.split),
          corpus_->path(),
          documents_.size());
    }
  }
}

void Prefetch::seek(const DataPosition& position) {
  if (position.document >= documents_.size()) {
    bad_input("the data position (epoch {}, document {}) is outside the {} split's {} "
              "documents: the data changed",
              position.epoch,
              position.document,
              to_string(options_.split),
              documents_.size());
  }
  {
    std::unique_lock lock(mutex_);
    const bool was_paused = std::exchange(paused_, true);
    done_.wait(lock, [this] { return busy_ == 0; });
    slots_.clear();
    ready_tokens_ = 0;
    barren_ = 0;
    cursor_ = {position.epoch, position.document, 0};
    load_epoch(position.epoch);
    paused_ = was_paused;
  }
  work_.notify_all();
}

void Prefetch::pause() {
  std::unique_lock lock(mutex_);
  paused_ = true;
  done_.wait(lock, [this] { return busy_ == 0; });
}

void Prefetch::resume() {
  {
    const std::lock_guard lock(mutex_);
    paused_ = false;
  }
  work_.notify_all();
}

std::int64_t Prefetch::wait_ns() const {
  const std::lock_guard lock(mutex_);
  return wait_ns_;
}

} // namespace assay
