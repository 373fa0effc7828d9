#include "core/statistics/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/core/scipy_vectors.h"

namespace assay {
namespace statistics_test {

using nlohmann::json;
using test::expect_near;
using test::vectors;

TEST(Statistics, SampleFiguresMatchSciPy) {
  const json reference = vectors();
  ASSERT_GE(reference["samples"].size(), 6u);
  for (const json& sample : reference["samples"]) {
    const auto x = sample["values"].get<std::vector<double>>();
    expect_near(mean(x), sample["mean"], "mean");
    expect_near(sample_sd(x), sample["sd"], "sd");
    expect_near(median(x), sample["median"], "median");
    expect_near(mad(x), sample["mad"], "mad");
    expect_near(hodges_lehmann(x), sample["hodges_lehmann"], "Hodges-Lehmann");
    expect_near(*t_test_p(x), sample["t_test_p"], "t test");
    for (const json& row : sample["quantiles"])
      expect_near(quantile(x, row[0]), row[1], "quantile");
  }
}

TEST(Statistics, IntervalsMatchSciPy) {
  const json reference = vectors(); // named: a loop over part of a temporary reads freed memory
  for (const json& sample : reference["samples"]) {
    const auto x = sample["values"].get<std::vector<double>>();
    for (const json& row : sample["intervals"]) {
      const double alpha = row["alpha"];
      const std::string what = "n " + std::to_string(x.size()) + " alpha " + std::to_string(alpha);
      const auto t = t_interval(x, alpha);
      ASSERT_TRUE(t);
      expect_near(t->lower, row["t"][0], "t lower, " + what);
      expect_near(t->upper, row["t"][1], "t upper, " + what);
      const auto exact = median_interval(x, alpha);
      ASSERT_EQ(exact.has_value(), !row["median"].is_null()) << what;
      if (!exact) continue;
      EXPECT_EQ(exact->lower, row["median"][0].get<double>()) << what;
      EXPECT_EQ(exact->upper, row["median"][1].get<double>()) << what;
    }
  }
}

TEST(Statistics, TestsAndPowerMatchSciPy) {
  const json reference = vectors();
  for (const json& row : reference["fisher"])
    expect_near(fisher_exact_p(row[0], row[1], row[2], row[3]), row[4], "fisher " + row.dump());
  for (const json& row : reference["student_quantile"])
    expect_near(student_quantile(row[0], row[1]), row[2], "t quantile " + row.dump());
  for (const json& row : reference["power"])
    EXPECT_NEAR(t_test_power(row[0], row[1], row[2], row[3]), row[4].get<double>(), 1e-7)
        << row.dump();
  for (const json& row : reference["launches_needed"])
    EXPECT_EQ(launches_needed(row[0], row[1], row[2], row[3]), row[4].get<int>()) << row.dump();
}

// k = max {j : P(Bin(n, 1/2) < j) <= alpha / 2}, from the tables of the sign test.
TEST(Statistics, MedianRankFromTables) {
  EXPECT_EQ(median_rank(5, 0.05), 0u);
  EXPECT_EQ(median_rank(6, 0.05), 1u);
  EXPECT_EQ(median_rank(9, 0.05), 2u);
  EXPECT_EQ(median_rank(20, 0.05), 6u);
  EXPECT_EQ(median_rank(100, 0.05), 40u);
  EXPECT_EQ(median_rank(0, 0.05), 0u);
}

// One question per rank would take hours. The normal distribution agrees to a rank or two.
TEST(Statistics, MedianRankOfManyValuesIsQuick) {
  constexpr std::size_t kMany = 100'000'000;
  const double expected = kMany / 2.0 - 1.959964 * std::sqrt(static_cast<double>(kMany)) / 2;
  EXPECT_NEAR(static_cast<double>(median_rank(kMany, 0.05)), expected, 2);
}

TEST(Statistics, LaunchSpreadSplitsVariance) {
  const std::vector<double> values{0.01, 0.02, 0.03};
  const auto spread = launch_spread(values, {0.004, 0.006});
  ASSERT_TRUE(spread);
  EXPECT_NEAR(spread->total_variance, 1e-4, 1e-15);
  EXPECT_NEAR(spread->within_variance, (16e-6 + 36e-6) / 2, 1e-15);
  EXPECT_NEAR(spread->between_variance, 1e-4 - 26e-6, 1e-15);
  EXPECT_EQ(launch_spread(values, {0.02})->between_variance, 0) << "never negative";
  EXPECT_FALSE(launch_spread({0.01}, {}));
  const double mde = minimum_detectable_effect(std::sqrt(spread->total_variance), 3, 0.05, 0.8);
  EXPECT_NEAR(t_test_power(mde, 0.01, 3, 0.05), 0.8, 1e-9);
}

TEST(Statistics, MedianErrorIsWidthOver392) {
  std::vector<double> values;
  for (int i = 1; i <= 20; ++i) values.push_back(i);
  EXPECT_NEAR(*median_standard_error(values), (15.0 - 6.0) / 3.92, 1e-12);
  EXPECT_FALSE(median_standard_error({1, 2, 3, 4, 5}));
}

double hodges_lehmann_by_definition(const std::vector<double>& values) {
  std::vector<double> averages;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i; j < values.size(); ++j) averages.push_back((values[i] + values[j]) / 2);
  return median(averages);
}

TEST(Statistics, HodgesLehmannIsTheMedianOfAllWalshAverages) {
  std::mt19937_64 random(21);
  std::normal_distribution<double> normal;
  for (std::size_t n = 1; n <= 120; ++n) {
    std::vector<double> values(n), few(n);
    for (double& value : values) value = std::exp(3 * normal(random)) * normal(random);
    for (double& value : few) value = std::floor(2 * normal(random)); // many ties, both signs, 0
    EXPECT_NEAR(hodges_lehmann(values),
                hodges_lehmann_by_definition(values),
                1e-15 * std::abs(hodges_lehmann_by_definition(values)))
        << n;
    EXPECT_EQ(hodges_lehmann(few), hodges_lehmann_by_definition(few)) << n;
  }
}

// 200,000 pairs: their Walsh averages alone would take 160 GB.
TEST(Statistics, HodgesLehmannNeedsLittleMemory) {
  std::vector<double> values;
  for (int i = 0; i < 200'000; ++i) values.push_back(i);
  EXPECT_EQ(hodges_lehmann(values), 199'999.0 / 2);
}

// Two launches at alpha / 20: the critical value is 254, where the distribution's series fails.
TEST(Statistics, PowerAndMdeHoldWhereTheSeriesDoesNotConverge) {
  for (const int launches : {2, 3, 5, 20})
    for (const double alpha : {0.05, 0.05 / 7, 0.05 / 20}) {
      const double mde = minimum_detectable_effect(0.01, launches, alpha, 0.8);
      EXPECT_NEAR(t_test_power(mde, 0.01, launches, alpha), 0.8, 1e-6) << launches << ' ' << alpha;
      EXPECT_LT(t_test_power(0.9 * mde, 0.01, launches, alpha), 0.8);
    }
  // Of one degree of freedom, P(|T| > c) where the mean is d >> 1 errors away is P(|Z| < d / c).
  const double critical = student_quantile(1 - 0.0025 / 2, 1);
  EXPECT_NEAR(t_test_power(300, std::sqrt(2.0), 2, 0.0025),
              std::erf(300 / critical / std::sqrt(2.0)),
              1e-3);
}

TEST(Statistics, DegenerateInputs) {
  EXPECT_FALSE(t_interval({1.0}, 0.05));
  EXPECT_FALSE(t_test_p({}));
  EXPECT_EQ(*t_test_p({0.5, 0.5, 0.5}), 0.0);
  EXPECT_EQ(*t_test_p({0.0, 0.0}), 1.0);
  EXPECT_EQ(t_test_power(0.01, 0, 5, 0.05), 1.0);
  EXPECT_NEAR(t_test_power(0, 0.01, 5, 0.05), 0.05, 1e-12);
  EXPECT_NEAR(t_test_power(10, 0.01, 5, 0.05), 1.0, 1e-9);
  EXPECT_FALSE(launches_needed(1e-5, 1.0, 0.05, 0.8, 100)) << "not within 100 launches";
  EXPECT_FALSE(launches_needed(0, 0.01, 0.05, 0.8));
  EXPECT_EQ(quantile({7.0}, 0.3), 7.0);
}

} // namespace statistics_test
} // namespace assay
