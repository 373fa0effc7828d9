#include "experiments/engine/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace assay {
namespace schedule_test {

constexpr int kDraws = 24000;

// 0.1 % and 99.9 % points are far outside: the seeds are fixed, so this either holds or does not.
TEST(Schedule, PermutationsAreUniform) {
  const Schedule schedule{"abc", 1};
  std::map<std::vector<std::size_t>, int> seen;
  for (int round = 0; round < kDraws; ++round) ++seen[schedule.order("cell", 1, 0, round, 4)];
  ASSERT_EQ(seen.size(), 24u);
  double chi_square = 0;
  for (const auto& [order, count] : seen)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 49.7); // 99.9 % point, 23 degrees of freedom
  EXPECT_GT(chi_square, 7.5);  // 0.1 % point: more even than chance would be
}

TEST(Schedule, SuccessiveRoundsAreIndependent) {
  const Schedule schedule{"abc", 2};
  std::map<std::pair<std::size_t, std::size_t>, int> pairs;
  for (int round = 0; round < kDraws; ++round)
    ++pairs[{schedule.order("cell", 1, 0, round, 2)[0],
             schedule.order("cell", 1, 0, round + 1, 2)[0]}];
  ASSERT_EQ(pairs.size(), 4u);
  for (const auto& [pair, count] : pairs) EXPECT_NEAR(count, kDraws / 4, 4 * 67); // 4 sd
}

TEST(Schedule, IsAPureFunctionOfItsPlace) {
  const Schedule a{"abc", 1}, b{"abc", 1};
  EXPECT_EQ(a.order("cell", 2, 1, 17, 5), b.order("cell", 2, 1, 17, 5));
  (void)a.order("cell", 9, 9, 9, 5);
  EXPECT_EQ(a.order("cell", 2, 1, 17, 5), b.order("cell", 2, 1, 17, 5));
}

// Each part of the place matters: over 64 rounds two places never agree throughout.
TEST(Schedule, EveryPartOfThePlaceMatters) {
  const auto orders = [](const Schedule& s, const char* cell, int launch, int attempt) {
    std::vector<std::vector<std::size_t>> all;
    for (int round = 0; round < 64; ++round)
      all.push_back(s.order(cell, launch, attempt, round, 3));
    return all;
  };
  const Schedule base{"abc", 1};
  std::set<std::vector<std::vector<std::size_t>>> distinct{orders(base, "cell", 1, 0),
                                                           orders(base, "other", 1, 0),
                                                           orders(base, "cell", 2, 0),
                                                           orders(base, "cell", 1, 1),
                                                           orders({"abd", 1}, "cell", 1, 0),
                                                           orders({"abc", 2}, "cell", 1, 0)};
  EXPECT_EQ(distinct.size(), 6u);
  EXPECT_NE(base.launch_seed("cell", "timed", 1, 0), base.launch_seed("cell", "timed", 2, 0));
  EXPECT_NE(base.launch_seed("cell", "timed", 1, 0), base.launch_seed("cell", "parity", 1, 0));
}

// The algorithm is part of the ledger's meaning: a stored order must be computed again for ever.
TEST(Schedule, KeepsItsValues) {
  CounterRandom random(0);
  EXPECT_EQ(random.next(),
            0xe220a8397b1dcdafu); // SplitMix64 from seed 0, published reference value
  EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4u);
}

TEST(Schedule, BelowIsUnbiased) {
  CounterRandom random(3);
  std::vector<int> counts(3);
  for (int i = 0; i < 30000; ++i) ++counts[random.below(3)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 4 * 82);
}

// Over as many launches as there are variants each is built first, second … exactly once.
TEST(Schedule, BuildOrdersAreBalancedOverLaunches) {
  const Schedule schedule{"spec", 7};
  for (const std::size_t variants : {2u, 3u, 5u}) {
    std::set<std::pair<std::size_t, std::size_t>> seen; // place, variant
    for (int launch = 1; launch <= static_cast<int>(variants); ++launch) {
      const auto order = schedule.build_order("cell", launch, variants);
      ASSERT_EQ(order.size(), variants);
      for (std::size_t place = 0; place < variants; ++place) seen.insert({place, order[place]});
    }
    EXPECT_EQ(seen.size(), variants * variants);
  }
  EXPECT_EQ(schedule.build_order("cell", 1, 5), schedule.build_order("cell", 1, 5));
  EXPECT_EQ(schedule.build_order("cell", 1, 5), schedule.build_order("cell", 11, 5));
}

// Over twice as many each is built before each other one as often as behind it.
TEST(Schedule, BuildOrdersPreferNoSide) {
  const Schedule schedule{"spec", 7};
  for (const std::size_t variants : {2u, 3u, 5u}) {
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> before; // first, second: launches
    for (int launch = 1; launch <= 2 * static_cast<int>(variants); ++launch) {
      const auto order = schedule.build_order("cell", launch, variants);
      for (std::size_t place = 0; place < variants; ++place)
        for (std::size_t later = place + 1; later < variants; ++later)
          ++before[{order[place], order[later]}];
    }
    EXPECT_EQ(before.size(), variants * (variants - 1));
    for (const auto& [pair, launches] : before)
      EXPECT_EQ(launches, variants) << pair.first << " before " << pair.second;
  }
}

} // namespace schedule_test
} // namespace assay
