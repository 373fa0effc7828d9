// Coverage, level and power of the estimators by simulation, fixed seeds. Tolerances are the
// binomial 99.9 % range of the nominal rate at the number of replicates.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/statistics/statistics.h"

namespace assay {
namespace {

double binomial_margin(double rate, int replicates) {
  return 3.3 * std::sqrt(rate * (1 - rate) / replicates);
}

// Skewed, heavy-tailed, median exactly 0: no normality may be assumed.
double skewed(std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const double z = normal(random);
  return z > 0 ? 3 * z * z : z;
}

TEST(Simulation, MedianIntervalCoversWhateverTheDistribution) {
  constexpr int kReplicates = 4000;
  std::mt19937_64 random(11);
  for (const std::size_t n : {8u, 21u, 64u}) {
    int covered = 0;
    for (int r = 0; r < kReplicates; ++r) {
      std::vector<double> values(n);
      for (double& value : values) value = skewed(random);
      covered += median_interval(values, 0.05)->contains(0);
    }
    const double rate = static_cast<double>(covered) / kReplicates;
    EXPECT_GE(rate, 0.95 - binomial_margin(0.05, kReplicates)) << n;
    EXPECT_LE(rate, 0.995) << n << ": exact intervals are conservative, but not empty of content";
  }
}

TEST(Simulation, LaunchIntervalCoversAndKeepsItsLevelUnderLaunchEffects) {
  constexpr int kReplicates = 3000;
  std::mt19937_64 random(13);
  std::normal_distribution<double> normal;
  int covered = 0;
  for (int r = 0; r < kReplicates; ++r) {
    std::vector<double> launches;
    for (int l = 0; l < 5; ++l) {
      const double contrast = 0.01 + 0.003 * normal(random);
      std::vector<double> pairs(31);
      for (double& pair : pairs) pair = contrast + 0.05 * normal(random);
      launches.push_back(median(pairs));
    }
    covered += t_interval(launches, 0.05)->contains(0.01);
  }
  EXPECT_NEAR(static_cast<double>(covered) / kReplicates, 0.95, binomial_margin(0.05, kReplicates));
}

TEST(Simulation, LaunchSpreadSeparatesItsParts) {
  constexpr int kReplicates = 1500;
  std::mt19937_64 random(14);
  std::normal_distribution<double> normal;
  double between = 0, total = 0;
  for (int r = 0; r < kReplicates; ++r) {
    std::vector<double> launches, errors;
    for (int l = 0; l < 8; ++l) {
      const double contrast = 0.02 * normal(random);
      std::vector<double> pairs(61);
      for (double& pair : pairs) pair = contrast + 0.05 * normal(random);
      launches.push_back(median(pairs));
      errors.push_back(*median_standard_error(pairs));
    }
    const auto spread = launch_spread(launches, errors);
    between += spread->between_variance / kReplicates;
    total += spread->total_variance / kReplicates;
  }
  const double median_variance = 1.5708 * 0.05 * 0.05 / 61; // pi / 2 sigma^2 / n, normal noise
  EXPECT_NEAR(between, 4e-4, 0.3e-4);
  EXPECT_NEAR(total, 4e-4 + median_variance, 0.3e-4);
}

TEST(Simulation, MinimumDetectableEffectIsSeenFourTimesInFive) {
  constexpr int kReplicates = 4000;
  constexpr double kSd = 0.01;
  std::mt19937_64 random(15);
  std::normal_distribution<double> normal;
  for (const double alpha : {0.05, 0.05 / 7})
    for (const int launches : {3, 5, 8}) {
      const double effect = minimum_detectable_effect(kSd, launches, alpha, 0.8);
      int seen = 0;
      for (int r = 0; r < kReplicates; ++r) {
        std::vector<double> values;
        for (int l = 0; l < launches; ++l) values.push_back(effect + kSd * normal(random));
        seen += *t_test_p(values) < alpha;
      }
      const double rate = static_cast<double>(seen) / kReplicates;
      EXPECT_NEAR(rate, 0.8, binomial_margin(0.2, kReplicates)) << launches << ' ' << alpha;
    }
}

} // namespace
} // namespace assay
