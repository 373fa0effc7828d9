// Loops on LibTorch's threads: every index once, on as many threads as asked for, and no error
// lost.
#include "model/layout/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/model/model_fixture.h"

namespace assay {
namespace parallel_test {

struct Threads {
  explicit Threads(int count) : before(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before); }
  int before;
};

TEST(InParallel, EveryIndexIsVisitedOnceInPartsOfTheGrain) {
  const Threads threads(3);
  for (const std::int64_t count : {0, 1, 7, 8, 9, 1000}) {
    std::vector<int> visits(static_cast<std::size_t>(count));
    std::mutex lock;
    std::vector<std::int64_t> parts;
    in_parallel(count, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      const std::scoped_lock held(lock);
      parts.push_back(end - begin);
    });
    EXPECT_EQ(visits, std::vector<int>(static_cast<std::size_t>(count), 1));
    EXPECT_EQ(parts.size(),
              static_cast<std::size_t>(count == 0   ? 0
                                       : count < 8  ? 1
                                       : count < 12 ? 2
                                                    : 3));
    if (count < 4) continue;
    for (const std::int64_t part : parts) EXPECT_GE(part, 4);
  }
}

TEST(InParallel, TakesAsManyThreadsAsLibTorchHas) {
  for (const int count : {1, 2}) {
    const Threads threads(count);
    std::mutex lock;
    std::set<std::thread::id> seen;
    in_parallel(64, 1, [&](std::int64_t, std::int64_t) {
      const std::scoped_lock held(lock);
      seen.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(count));
    EXPECT_TRUE(seen.contains(std::this_thread::get_id()));
  }
}

// Four parts that wait for each other, in a process of its own: on fewer threads it never ends.
TEST(InParallel, RunsOnAllThreadsThatTheProcessWasGiven) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        set_threads(4);
        set_threads(4);
        std::barrier all(4);
        alarm(60);
        in_parallel(4, 1, [&](std::int64_t, std::int64_t) { all.arrive_and_wait(); });
        std::_Exit(0);
      },
      testing::ExitedWithCode(0),
      "");
}

TEST(InParallel, ThrowsWhatAPartThrewAfterAllHaveEnded) {
  const Threads threads(2);
  int done = 0;
  std::mutex lock;
  EXPECT_THROW(in_parallel(2,
                           1,
                           [&](std::int64_t begin, std::int64_t) {
                             if (begin == 1) throw std::runtime_error("part 1");
                             const std::scoped_lock held(lock);
                             ++done;
                           }),
               std::runtime_error);
  EXPECT_EQ(done, 1);
}

} // namespace parallel_test
} // namespace assay
