#include "core/statistics/welch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/core/scipy_vectors.h"

namespace assay {
namespace welch_test {

using nlohmann::json;
using test::expect_near;

TEST(Welch, MatchesSciPy) {
  const json reference = test::vectors();
  ASSERT_GE(reference["welch"].size(), 5u);
  for (const json& row : reference["welch"]) {
    const auto difference = mean_difference(row["first"].get<std::vector<double>>(),
                                            row["second"].get<std::vector<double>>());
    ASSERT_TRUE(difference);
    expect_near(difference->value, row["difference"], "difference");
    expect_near(difference->df, row["df"], "degrees of freedom");
    for (const json& wanted : row["intervals"]) {
      const Interval interval = difference->interval(wanted[0]);
      expect_near(interval.lower, wanted[1], "lower " + wanted.dump());
      expect_near(interval.upper, wanted[2], "upper " + wanted.dump());
    }
  }
}

// s1^2 / n1 = 1 / 3, s2^2 / n2 = 8 / 2, df = (13/3)^2 / ((1/3)^2 / 2 + 4^2 / 1) = 338 / 289.
TEST(Welch, MatchesACalculationByHand) {
  const auto difference = mean_difference({1, 2, 3}, {4, 8});
  ASSERT_TRUE(difference);
  EXPECT_DOUBLE_EQ(difference->value, 4);
  EXPECT_NEAR(difference->error, std::sqrt(13.0 / 3), 1e-12);
  EXPECT_NEAR(difference->df, 338.0 / 289, 1e-12);
}

TEST(Welch, NeedsTwoValuesOnEachSide) {
  EXPECT_FALSE(mean_difference({1}, {1, 2}));
  EXPECT_FALSE(mean_difference({1, 2}, {}));
  const auto constant = mean_difference({1, 1}, {3, 3});
  ASSERT_TRUE(constant);
  EXPECT_EQ(constant->interval(0.05).lower, 2);
  EXPECT_EQ(constant->interval(0.05).upper, 2);
}

constexpr int kReplicates = 20'000;

// Share of intervals at `alpha` that contain the true difference. n: launches of a run; sd: of one.
double coverage(int n1, double sd1, int n2, double sd2, double alpha) {
  std::mt19937_64 random(91);
  std::normal_distribution<double> normal;
  const auto sample = [&](int n, double sd) {
    std::vector<double> values;
    for (int i = 0; i < n; ++i) values.push_back(sd * normal(random));
    return values;
  };
  int covered = 0;
  for (int r = 0; r < kReplicates; ++r) {
    const std::vector<double> first = sample(n1, sd1), second = sample(n2, sd2);
    covered += mean_difference(first, second)->interval(alpha).contains(0);
  }
  return static_cast<double>(covered) / kReplicates;
}

double margin(double rate) { // the binomial 99.9 % range
  return 3.3 * std::sqrt(rate * (1 - rate) / kReplicates);
}

// Figures of docs/statistics.md, "Two runs": the interval keeps its level where both runs scatter
// alike, and misses it a little where one scatters four times as much and alpha is small.
TEST(WelchSimulation, CoversAsDocumented) {
  EXPECT_NEAR(coverage(5, 1, 5, 1, 0.05), 0.956, margin(0.05));
  EXPECT_NEAR(coverage(5, 1, 8, 4, 0.05), 0.950, margin(0.05));
  EXPECT_NEAR(coverage(8, 1, 5, 4, 0.05), 0.946, margin(0.05));
  EXPECT_NEAR(coverage(5, 1, 5, 1, 0.05 / 18), 0.998, margin(0.002));
  EXPECT_NEAR(coverage(8, 1, 5, 4, 0.05 / 18), 0.9945, margin(0.0055));
}

} // namespace welch_test
} // namespace assay
