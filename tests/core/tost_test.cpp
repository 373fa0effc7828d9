#include "core/statistics/tost.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/core/scipy_vectors.h"

namespace assay {
namespace tost_test {

using nlohmann::json;
using test::expect_near;
using test::vectors;

TEST(Tost, MatchesSciPy) {
  const json reference = vectors();
  ASSERT_GE(reference["tost"].size(), 10u);
  for (const json& row : reference["tost"]) {
    const auto result = tost(row["differences"].get<std::vector<double>>(), row["margin"]);
    ASSERT_TRUE(result);
    expect_near(result->interval.lower, row["interval_90"][0], "lower");
    expect_near(result->interval.upper, row["interval_90"][1], "upper");
    expect_near(result->p_low, row["p_low"], "p_low");
    expect_near(result->p_high, row["p_high"], "p_high");
    // Two ways to say the same: both one-sided p below .05, or the 90 % interval inside the margin.
    const double margin = row["margin"];
    EXPECT_EQ(result->p() < kTostAlpha,
              -margin < result->interval.lower && result->interval.upper < margin);
  }
  for (const json& row : reference["tost_pairs_needed"])
    EXPECT_EQ(tost_pairs_needed(row[0], row[1], row[2]), row[3].get<int>()) << row.dump();
}

TEST(Tost, Borders) {
  EXPECT_FALSE(tost({}, 1));
  EXPECT_FALSE(tost({0.1}, 1));
  const auto equal = tost({0, 0, 0, 0}, 0.001); // bit-equal losses
  EXPECT_EQ(equal->p(), 0);
  EXPECT_EQ(equal->interval.upper, 0);
  const auto shifted = tost({0.5, 0.5, 0.5}, 0.5); // exactly on the margin: not proved
  EXPECT_EQ(shifted->p_high, 0.5);
  EXPECT_EQ(shifted->p_low, 0);
  EXPECT_FALSE(tost_pairs_needed(1, 0.01, 0.8, kTostAlpha, 100));
  EXPECT_EQ(tost_pairs_needed(0, 0.01, 0.8), 2);
}

double binomial_margin(double rate, int replicates) {
  return 3.3 * std::sqrt(rate * (1 - rate) / replicates);
}

double pass_rate(double truth, double sd, double margin, int pairs, std::mt19937_64& random) {
  constexpr int kReplicates = 6000;
  std::normal_distribution<double> normal(truth, sd);
  int passed = 0;
  for (int r = 0; r < kReplicates; ++r) {
    std::vector<double> values(static_cast<std::size_t>(pairs));
    for (double& value : values) value = normal(random);
    passed += tost(values, margin)->p() < kTostAlpha;
  }
  return static_cast<double>(passed) / kReplicates;
}

TEST(TostSimulation, ADifferenceOfTheMarginPassesOneTimeInTwenty) {
  std::mt19937_64 random(21);
  for (const int pairs : {4, 8, 16}) {
    // sd far below the margin: only one side matters, the test is exact.
    EXPECT_NEAR(pass_rate(0.002, 0.0002, 0.002, pairs, random), 0.05, binomial_margin(0.05, 6000))
        << pairs;
    EXPECT_NEAR(pass_rate(-0.002, 0.0002, 0.002, pairs, random), 0.05, binomial_margin(0.05, 6000))
        << pairs;
    // sd of the margin's size: conservative, never above.
    EXPECT_LE(pass_rate(0.002, 0.002, 0.002, pairs, random), 0.05 + binomial_margin(0.05, 6000))
        << pairs;
  }
}

TEST(TostSimulation, NoDifferencePassesAsOftenAsPlanned) {
  std::mt19937_64 random(22);
  for (const double sd : {0.0013, 0.0019}) {
    const int pairs = *tost_pairs_needed(sd, 0.002, 0.8);
    EXPECT_GE(pass_rate(0, sd, 0.002, pairs, random), 0.8 - binomial_margin(0.8, 6000)) << sd;
    EXPECT_LT(pass_rate(0, sd, 0.002, pairs - 2, random), 0.8) << "no pair too many, " << sd;
  }
}

} // namespace tost_test
} // namespace assay
