// Messages of several ranks over a real store.
#include "app/worker/ranks/rank_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace assay {
namespace rank_store_test {

using worker::next_message;
using Message = std::vector<std::uint8_t>;

// Rank 0 waits for rank 1, then for rank 2. A second message of rank 1 comes while it waits for
// rank 2, and wakes it: it waits on.
TEST(RankStore, AMessageOfAnotherRankIsNotTheOneWaitedFor) {
  const auto server = worker::host_store(worker::kThisMachine, 0);
  const auto connect = [&] {
    return worker::connect_store(worker::kThisMachine, server->getPort());
  };
  const worker::StorePtr reader = connect(), one = connect(), two = connect();
  const auto soon = [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  const std::jthread ranks([&] {
    soon();
    one->queuePush("answer/1", {1});
    soon();
    one->queuePush("answer/1", {3});
    soon();
    two->queuePush("answer/2", {2});
  });
  EXPECT_EQ(next_message(*reader, "answer/1"), Message{1});
  EXPECT_EQ(next_message(*reader, "answer/2"), Message{2});
  EXPECT_EQ(next_message(*reader, "answer/1"), Message{3});
}

} // namespace rank_store_test
} // namespace assay
