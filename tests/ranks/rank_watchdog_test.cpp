// Watches of several ranks over a real store: each has its own connection and threads, as in its
// own process. Findings go to the test instead of ending it.
#include "model/ddp/rank_watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace assay {
namespace rank_watchdog_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

c10::intrusive_ptr<c10d::TCPStore> make_store(std::uint16_t port, bool server) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = server;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
}

// One rank of two; finding() waits for what it finds, "" when that is nothing.
class Member {
public:
  Member(const c10::intrusive_ptr<c10d::Store>& store, int rank, WatchOptions options = {}) {
    options.on_finding = [this](const Finding& f) { found_.set_value(f); };
    watch_ = std::make_unique<RankWatchdog>(store, rank, 2, std::move(options));
  }
  RankWatchdog& watch() { return *watch_; }
  void end() { watch_.reset(); }
  std::string finding(milliseconds limit) {
    auto future = found_.get_future();
    return future.wait_for(limit) == std::future_status::ready ? future.get().text : "";
  }

private:
  std::promise<Finding> found_;
  std::unique_ptr<RankWatchdog> watch_;
};

class RankWatchTest : public testing::Test {
protected:
  c10::intrusive_ptr<c10d::TCPStore> server = make_store(0, true);
  c10::intrusive_ptr<c10d::TCPStore> client = make_store(server->getPort(), false);
};

TEST_F(RankWatchTest, FindsNothingInAHealthyGroupAndEndsInOrder) {
  Member a(server, 0, {.holds_store = true}), b(client, 1);
  for (int i = 0; i < 200; ++i) {
    a.watch().issue("all_reduce bucket 100 Float");
    b.watch().issue("all_reduce bucket 100 Float");
    std::this_thread::sleep_for(milliseconds(5));
  }
  const auto begin = Clock::now();
  std::thread other([&] { b.end(); });
  a.end();
  other.join();
  EXPECT_LT(Clock::now() - begin, milliseconds(1500)); // they heard of each other's leaving
  EXPECT_EQ(a.finding(milliseconds(0)), "");
  EXPECT_EQ(b.finding(milliseconds(0)), "");
}

// The bug of the master-branch barrier: rank 0 enters a barrier that rank 1 never does.
TEST_F(RankWatchTest, NamesAMismatchWithinFiveSeconds) {
  Member a(server, 0), b(client, 1);
  for (int i = 0; i < 10; ++i) {
    a.watch().issue("all_reduce bucket 100 Float");
    b.watch().issue("all_reduce bucket 100 Float");
  }
  const auto begin = Clock::now();
  a.watch().issue("barrier validation 0 none");
  b.watch().issue("all_reduce bucket 100 Float");
  const auto expected = AllOf(HasSubstr("disagree at collective 11"),
                              HasSubstr("rank 0 issues 'barrier validation 0 none'"),
                              HasSubstr("rank 1 issues 'all_reduce bucket 100 Float'"));
  EXPECT_THAT(a.finding(seconds(5)), expected);
  EXPECT_THAT(b.finding(seconds(5)), expected);
  EXPECT_LE(Clock::now() - begin, seconds(5));
}

TEST_F(RankWatchTest, NamesTheRankThatHangsAndNotTheOneThatWaits) {
  const WatchOptions fast{.beat = milliseconds(50), .limits = {.hung = milliseconds(400)}};
  Member a(server, 0, fast), b(client, 1, fast);
  for (int i = 0; i < 4; ++i)
    for (Member* member : {&a, &b}) {
      const RankWatchdog::Phase phase(member->watch(), "visit", true);
      member->watch().issue("all_reduce bucket 100 Float");
    }
  const RankWatchdog::Phase first(a.watch(), "visit", true), second(b.watch(), "visit", true);
  a.watch().issue("all_reduce bucket 100 Float"); // b never comes
  const std::string found = a.finding(seconds(5));
  EXPECT_THAT(found,
              AllOf(HasSubstr("rank 1 hangs in phase 'visit'"),
                    HasSubstr("limit 0.4 s"),
                    HasSubstr("rank 0 waits in collective 5")));
}

// validation_ranks = none: rank 1 is in its next collective while rank 0 evaluates for 3 s.
TEST_F(RankWatchTest, AnEvaluationThatNobodyWaitsForHasALimit) {
  const WatchOptions two_seconds{
      .beat = milliseconds(50), .limits = {.hung = seconds(2)}, .first_hung = seconds(2)};
  const auto begin = Clock::now();
  Member a(server, 0, two_seconds), b(client, 1, two_seconds);
  const RankWatchdog::Phase evaluates(a.watch(), "visit of none", true),
      waits(b.watch(), "visit of none", true);
  b.watch().issue("barrier visit 0 none");
  for (Member* member : {&a, &b})
    EXPECT_THAT(member->finding(seconds(3)),
                AllOf(HasSubstr("rank 0 hangs in phase 'visit of none'"),
                      HasSubstr("limit 2.0 s"),
                      HasSubstr("rank 1 waits in collective 1 ('barrier visit 0 none')")));
  EXPECT_LT(Clock::now() - begin, seconds(3));
}

TEST_F(RankWatchTest, TellsTheOthersWhyARankFails) {
  Member a(server, 0), b(client, 1);
  b.watch().fail("out of memory in variant 'x'", 3, "memory");
  EXPECT_EQ(a.finding(seconds(3)), "rank 1: out of memory in variant 'x'");
  EXPECT_EQ(a.watch().wait_for_finding(milliseconds(0))->retired, 3);
  EXPECT_EQ(a.watch().wait_for_finding(milliseconds(0))->cause, "memory");
}

TEST_F(RankWatchTest, NoticesThatTheStoreIsGone) {
  const WatchOptions options{.store_owner = "rank 0, which holds the store,"};
  Member b(client, 1, options);
  std::this_thread::sleep_for(milliseconds(100));
  server.reset(); // its process ended
  EXPECT_THAT(b.finding(seconds(5)), HasSubstr("rank 0, which holds the store, is gone"));
}

} // namespace rank_watchdog_test
} // namespace assay
