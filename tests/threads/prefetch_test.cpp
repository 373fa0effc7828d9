// Prefetch without LibTorch, so that ThreadSanitizer sees all of it (tests/model has the tests of
// what it yields).
#include "model/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/scratch.h"

namespace assay {
namespace prefetch_test {

class PrefetchThreads : public testing::Test {
protected:
  PrefetchThreads() {
    std::ofstream file(directory_ / "a.jsonl");
    for (int i = 0; i < 60; ++i)
      file << R"({"text": ")" << std::string(static_cast<std::size_t>(1 + i * 7 % 90), 'a')
           << "\"}\n";
    file.close();
    corpus_ = std::make_shared<const Corpus>(Corpus::open(directory_ / "a.jsonl"));
    tokenizer_ = open_tokenizer("bytes");
  }
  std::vector<std::int64_t> sizes(std::int64_t threads, int count) const {
    Prefetch prefetch(corpus_, tokenizer_, {Split::Train, 3, threads, 200});
    std::vector<std::int64_t> found;
    for (int i = 0; i < count; ++i) {
      if (i % 50 == 20) prefetch.pause();
      if (i % 50 == 20) prefetch.resume();
      found.push_back(static_cast<std::int64_t>(prefetch.next()->encoding.ids.size()));
    }
    return found;
  }

  test::Scratch directory_;
  std::shared_ptr<const Corpus> corpus_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(PrefetchThreads, YieldTheSameDocumentsWhateverTheirNumber) {
  EXPECT_EQ(sizes(1, 300), sizes(4, 300)); // several epochs
}

TEST_F(PrefetchThreads, EndWhileTheyWork) {
  for (int i = 0; i < 50; ++i) {
    Prefetch prefetch(corpus_, tokenizer_, {Split::Train, 3, 4, 100'000});
    if (i % 2 == 0) prefetch.next();
  }
}

TEST_F(PrefetchThreads, TellTheirWaitToAnotherThread) {
  Prefetch prefetch(corpus_, tokenizer_, {Split::Train, 3, 2, 50});
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done) EXPECT_GE(prefetch.wait_ns(), 0);
  });
  for (int i = 0; i < 200; ++i) prefetch.next();
  done = true;
  reader.join();
}

} // namespace prefetch_test
} // namespace assay
