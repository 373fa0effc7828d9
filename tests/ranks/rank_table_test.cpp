// The rules by which a rank is blamed, with given times: no thread, no store.
#include "model/ddp/rank_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace rank_table_test {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RankTableTest : public testing::Test {
protected:
  void say(int rank, const RankStatus& status, int at_ms) { board.heard(rank, status, at(at_ms)); }
  // What is found at a time, "" for nothing.
  std::string found(int at_ms) const {
    const auto finding = board.finding(at(at_ms));
    return finding ? finding->text : "";
  }
  RankTable::Clock::time_point at(int ms) const { return start + milliseconds(ms); }

  RankTable::Clock::time_point start{};
  RankTable board{3, {}, start};
};

RankStatus
working(std::vector<std::string> issued, std::int64_t idle_ms = 0, std::int64_t limit_ms = 5000) {
  return {.phase = "visit", .idle_ms = idle_ms, .limit_ms = limit_ms, .issued = std::move(issued)};
}

TEST_F(RankTableTest, FindsNothingInAHealthyGroup) {
  for (int beat = 0; beat < 20; ++beat) {
    for (int rank = 0; rank < 3; ++rank)
      say(rank, working({"all_reduce a", "barrier b"}), beat * 500);
    EXPECT_EQ(found(beat * 500 + 499), "");
  }
}

TEST_F(RankTableTest, NamesTheRankWithoutHeartbeatAfterThreeSeconds) {
  for (int rank = 0; rank < 3; ++rank) say(rank, working({}), 0);
  for (int ms = 500; ms <= 3000; ms += 500)
    for (const int rank : {0, 2}) say(rank, working({}), ms);
  EXPECT_EQ(found(3000), "");
  EXPECT_THAT(found(3001), AllOf(HasSubstr("rank 1 is dead"), HasSubstr("phase 'visit'")));
}

TEST_F(RankTableTest, WaitsLongerForTheFirstHeartbeat) {
  for (int ms = 0; ms <= 61000; ms += 500)
    for (const int rank : {0, 1}) say(rank, working({}), ms);
  EXPECT_EQ(found(60000), "");
  EXPECT_THAT(found(60001), HasSubstr("rank 2 has not come within 60 s"));
}

TEST_F(RankTableTest, ARankThatLeftIsNotDead) {
  RankStatus gone;
  gone.left = true;
  for (int rank = 0; rank < 3; ++rank) say(rank, gone, 0);
  EXPECT_EQ(found(100000), "");
  EXPECT_TRUE(board.all_others_left(0));
}

TEST_F(RankTableTest, NamesRanksThatIssueDifferentCollectives) {
  say(0, working({"all_reduce bucket 100 Float", "barrier validation"}), 0);
  say(1, working({"all_reduce bucket 100 Float"}), 0);
  say(2, working({"all_reduce bucket 100 Float"}), 0);
  EXPECT_EQ(found(0), "");
  say(1, working({"all_reduce bucket 100 Float"}), 500);
  EXPECT_THAT(found(500),
              AllOf(HasSubstr("disagree at collective 2"),
                    HasSubstr("rank 0 issues 'barrier validation'"),
                    HasSubstr("rank 1 issues 'all_reduce bucket 100 Float'"),
                    Not(HasSubstr("rank 2"))));
}

TEST_F(RankTableTest, BlamesTheRankThatHoldsTheOthersUp) {
  say(0, working({"all_reduce a"}, 6000), 0);
  say(2, working({"all_reduce a"}, 6000), 0);
  say(1, working({}, 4900), 0);
  EXPECT_EQ(found(0), "");
  say(1, working({}, 5400), 500);
  EXPECT_THAT(found(500),
              AllOf(HasSubstr("rank 1 hangs in phase 'visit' (no progress for 5.4 s, limit 5.0 s"),
                    HasSubstr("rank 0 waits in collective 1 ('all_reduce a')"),
                    Not(HasSubstr("rank 0 hangs"))));
}

TEST_F(RankTableTest, LeavesARankInPeaceThatMayTakeItsTime) {
  say(0, working({"all_reduce a"}, 60000), 0);
  say(2, working({"all_reduce a"}, 60000), 0);
  say(1, working({}, 60000, 0), 0);
  EXPECT_EQ(found(0), "");
}

TEST_F(RankTableTest, NamesTheRankThatLeftBeforeACollectiveOfTheOthers) {
  say(0, working({"all_reduce a", "barrier end"}), 0);
  say(2, working({"all_reduce a"}), 0);
  RankStatus gone;
  gone.issued = {"all_reduce a"};
  gone.left = true;
  say(1, gone, 0);
  EXPECT_THAT(found(0),
              AllOf(HasSubstr("rank 1 is done after 1 collectives"),
                    HasSubstr("rank 0 waits in collective 2 ('barrier end')")));
}

TEST_F(RankTableTest, NamesTheRankThatWaitsForARequestWhileAnotherWaitsForIt) {
  RankStatus idle;
  idle.idle_ms = 5400;
  say(1, idle, 0);
  say(2, working({"barrier master"}, 400), 0);
  say(0, working({"barrier master"}, 400), 0);
  EXPECT_EQ(found(0), ""); // its next request may be on its way
  say(0, working({}, 5100), 0);
  EXPECT_THAT(found(0),
              AllOf(HasSubstr("rank 1 is done after 0 collectives"),
                    HasSubstr("rank 0 waits in collective 1 ('barrier master')")));
}

TEST_F(RankTableTest, TellsAFailureBeforeWhatFollowsFromIt) {
  say(0, working({"barrier a"}, 9000), 0);
  say(2, working({"barrier b"}, 9000), 0);
  RankStatus failed;
  failed.failed = "out of memory";
  failed.retired = 4;
  failed.cause = "memory";
  say(1, failed, 0);
  const auto finding = board.finding(at(0));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->text, "rank 1: out of memory");
  EXPECT_EQ(finding->retired, 4);
  EXPECT_EQ(finding->cause, "memory");
}

TEST(RankStatus, SurvivesItsText) {
  RankStatus status = working({"all_reduce \"x\" 1", "barrier"}, 12, 34);
  status.failed = "why \xff";
  status.retired = 2;
  status.cause = "loss";
  const RankStatus read = RankStatus::from_text(status.text());
  EXPECT_EQ(read.issued, status.issued);
  EXPECT_EQ(read.phase, "visit");
  EXPECT_EQ(read.idle_ms, 12);
  EXPECT_EQ(read.limit_ms, 34);
  EXPECT_THAT(read.failed, HasSubstr("why "));
  EXPECT_EQ(read.retired, 2);
  EXPECT_EQ(read.cause, "loss");
}

} // namespace rank_table_test
} // namespace assay
