#include "experiments/evidence/loss/loss_quality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/names.h"

namespace assay {
namespace loss_quality_test {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The baseline's loss differs by seed far more than the candidate's does from it, as in real
// training.
std::vector<SeedLoss> losses(const std::vector<double>& differences) {
  std::vector<SeedLoss> seeds;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    const double a = 3.2 + 0.05 * static_cast<double>(i % 3);
    seeds.push_back({i + 1, a, a + differences[i]});
  }
  return seeds;
}

LossQuality judged(const std::vector<double>& differences,
                   std::optional<double> margin = 0.004,
                   LossRule rule = LossRule::Equivalence) {
  return judge_loss(losses(differences), margin, rule);
}

TEST(LossQuality, TheIntervalDecidesNotTheMean) {
  // scipy.stats.ttest_1samp(near, 0).confidence_interval(.9): [-0.00066596, 0.00106596].
  const std::vector<double> near{0.001, -0.001, 0.0005, -0.0005, 0.001};
  const LossQuality equal = judged(near);
  EXPECT_EQ(equal.quality, Quality::Equivalent);
  EXPECT_NEAR(equal.test->interval.lower, -0.00066596, 1e-8);
  EXPECT_NEAR(equal.test->interval.upper, 0.00106596, 1e-8);
  EXPECT_THAT(equal.reason, test::names("90 %", "5 seeds", "margin 0.004"));
  // The same mean, ten times the spread: nothing is proved, and it says what would.
  std::vector<double> wide = near;
  for (double& value : wide) value *= 10;
  const LossQuality unclear = judged(wide);
  EXPECT_EQ(unclear.quality, Quality::Unknown);
  EXPECT_THAT(unclear.reason, HasSubstr("about "));
  EXPECT_GT(*unclear.seeds_needed, 5);
}

TEST(LossQuality, HarmIsProvedNotGuessed) {
  const std::vector<double> worse{0.010, 0.011, 0.009, 0.010};
  EXPECT_EQ(judged(worse).quality, Quality::Harmed);
  EXPECT_EQ(judged({0.003, 0.012, 0.001, 0.010}).quality, Quality::Unknown)
      << "worse on average, interval across the margin";
  std::vector<double> better = worse;
  for (double& value : better) value = -value;
  EXPECT_EQ(judged(better).quality, Quality::Unknown) << "not equivalent, not harmed";
  EXPECT_THAT(judged(better).reason, HasSubstr("better"));
  EXPECT_EQ(judged(better, 0.004, LossRule::NonInferiority).quality, Quality::Equivalent);
  EXPECT_EQ(judged(worse, 0.004, LossRule::NonInferiority).quality, Quality::Harmed);
}

TEST(LossQuality, WhatCannotBeJudgedIsUnknown) {
  const std::vector<double> equal{0, 0, 0, 0};
  EXPECT_EQ(judged(equal).quality, Quality::Equivalent);
  EXPECT_EQ(judged({0, 0, 0}).quality, Quality::Unknown);
  EXPECT_THAT(judged({0, 0, 0}).reason, test::names("3 of at", "least 4"));
  EXPECT_EQ(judged({}).reason, "0 of at least 4 seeds");
  EXPECT_EQ(judged(equal, std::nullopt).quality, Quality::Unknown);
  EXPECT_THAT(judged(equal, std::nullopt).reason, HasSubstr("margin"));
  EXPECT_EQ(judged(equal, 0.0).quality, Quality::Unknown);
  std::vector<SeedLoss> twice = losses({0, 0, 0, 0});
  twice[3].seed = 1;
  const LossQuality repeated = judge_loss(twice, 0.004, LossRule::Equivalence);
  EXPECT_EQ(repeated.quality, Quality::Unknown);
  EXPECT_THAT(repeated.reason, HasSubstr("seed 1 "));
}

TEST(LossQuality, NanInBAloneIsHarm) {
  EXPECT_EQ(judged({0, kNan, 0, 0, 0}).quality, Quality::Harmed);
  EXPECT_EQ(judged({0, kNan}, std::nullopt).quality, Quality::Harmed) << "needs no margin";
  std::vector<SeedLoss> both = losses({0, 0, 0, 0});
  both[2] = {3, kNan, kNan};
  EXPECT_EQ(judge_loss(both, 0.004, LossRule::Equivalence).quality, Quality::Unknown);
  both[3].b = std::numeric_limits<double>::infinity();
  EXPECT_EQ(judge_loss(both, 0.004, LossRule::Equivalence).quality, Quality::Harmed);
}

// Planted differences, seeds fixed: what is green or red must be so with at most 5 % error.
struct Rates {
  double equivalent = 0, harmed = 0;
};
Rates rates(double truth, std::size_t seeds, std::uint64_t generator_seed) {
  constexpr int kReplicates = 2000;
  std::mt19937_64 random(generator_seed);
  std::normal_distribution<double> noise(0, 0.0019);
  Rates result;
  for (int r = 0; r < kReplicates; ++r) {
    std::vector<double> values(seeds);
    for (double& value : values) value = truth + noise(random);
    const Quality quality = judged(values, 0.002).quality;
    result.equivalent += (quality == Quality::Equivalent) / double{kReplicates};
    result.harmed += (quality == Quality::Harmed) / double{kReplicates};
  }
  return result;
}

TEST(LossQualitySimulation, ErrorRates) {
  const double error = 0.05 + 3.3 * std::sqrt(0.05 * 0.95 / 2000);
  for (const std::size_t seeds : {std::size_t{4}, std::size_t{10}, std::size_t{16}}) {
    const Rates at_margin = rates(0.002, seeds, 31 + seeds);
    EXPECT_LE(at_margin.equivalent, error) << "harm of the margin passes, " << seeds << " seeds";
    EXPECT_LE(at_margin.harmed, error) << "harm below the margin is called proved, " << seeds;
    EXPECT_LE(rates(0, seeds, 41 + seeds).harmed, 0.005) << "no harm is called harm, " << seeds;
  }
  EXPECT_GE(rates(0, 10, 51).equivalent, 0.8 - 3.3 * std::sqrt(0.16 / 2000)) << "the planned power";
  EXPECT_GE(rates(0.006, 10, 52).harmed, 0.95);
}

} // namespace loss_quality_test
} // namespace assay
