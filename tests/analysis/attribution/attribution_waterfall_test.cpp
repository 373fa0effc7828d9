#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "experiments/attribution/attribution.h"
#include "tests/analysis/attribution/trace_builder.h"

namespace assay {
namespace attribution_waterfall_test {

using synthetic::kMicro;
using synthetic::TraceBuilder;
using testing::AllOf;
using testing::HasSubstr;

// Base times of a step's parts, us.
struct Parts {
  double forward = 400, backward = 700, optimizer = 200, ema = 50, gap = 30;
};

// `rounds` rounds of `units` steps; each part varies by `noise` (us, sd), one common draw a round
// beside one a step.
Trace host_trace(const std::string& variant,
                 const Parts& parts,
                 int rounds,
                 int units,
                 double noise,
                 std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  TraceBuilder b(variant);
  std::int64_t at = 1000;
  for (int round = 0; round < rounds; ++round) {
    const double common = normal(random);
    for (int unit = 0; unit < units; ++unit) {
      const auto duration = [&](double mean) {
        return std::max<std::int64_t>(1, std::llround(mean + noise * (common + normal(random))));
      };
      const std::int64_t start = at;
      at += duration(parts.gap);
      for (const auto& [name, mean] : {std::pair("forward", parts.forward),
                                       std::pair("backward", parts.backward),
                                       std::pair("optimizer", parts.optimizer),
                                       std::pair("ema/update", parts.ema)}) {
        const std::int64_t from = at;
        b.span(name, from, at += duration(mean));
      }
      b.step(start, at, round, unit, unit > 0 || units == 1);
      at += 100;
    }
  }
  return b.take();
}

const StageDelta& stage(const Explanation& explanation, Stage wanted) {
  for (const StageDelta& row : explanation.waterfall.stages)
    if (row.stage == wanted) return row;
  throw std::out_of_range("no such stage in the waterfall");
}

TEST(Waterfall, APlantedMillisecondLandsInItsStage) {
  const Parts base;
  for (const auto& [where, part] : {std::pair(Stage::Forward, &Parts::forward),
                                    std::pair(Stage::Backward, &Parts::backward),
                                    std::pair(Stage::Optimizer, &Parts::optimizer),
                                    std::pair(Stage::Ema, &Parts::ema),
                                    std::pair(Stage::HostGap, &Parts::gap)}) {
    Parts slower = base;
    slower.*part += 1000;
    const Explanation result = explain(
        host_trace("a", base, 10, 3, 5, 1), host_trace("b", slower, 10, 3, 5, 2), std::nullopt);
    EXPECT_EQ(result.waterfall.pairs, 20u); // the first unit of a round is not counted
    const double total = result.waterfall.traced_delta_ns();
    EXPECT_NEAR(total, 1e6, 3e4);
    EXPECT_GT(stage(result, where).delta_ns / total, 0.95) << to_string(where);
    EXPECT_TRUE(stage(result, where).clear);
    EXPECT_TRUE(stage(result, where).interval->contains(1e6));
  }
}

TEST(Waterfall, PartsAddUpToTheStep) {
  Parts faster;
  faster.backward -= 200;
  const Waterfall waterfall =
      explain(host_trace("a", {}, 7, 2, 60, 3), host_trace("b", faster, 7, 2, 60, 4), std::nullopt)
          .waterfall;
  double a = 0, b = 0;
  for (const StageDelta& row : waterfall.stages) {
    EXPECT_NEAR(row.b_ns - row.a_ns, row.delta_ns, 1e-6);
    a += row.a_ns;
    b += row.b_ns;
  }
  EXPECT_NEAR(a, waterfall.a_ns, 1e-6);
  EXPECT_NEAR(b, waterfall.b_ns, 1e-6);
  EXPECT_NEAR(waterfall.traced_delta_ns(), b - a, 1e-6);
  EXPECT_NEAR(
      waterfall.traced_interval->lower + waterfall.traced_interval->upper, 2 * (b - a), 1e-3);
}

// One round whose steps differ must not weigh more than another: rounds are the sample.
TEST(Waterfall, RoundsWeighTheSame) {
  const auto trace = [](const char* variant, std::int64_t in_round_1) {
    TraceBuilder b(variant);
    b.step(0, 100, 0, 0);
    for (int i = 0; i < 3; ++i) b.step(200 + 1000 * i, 200 + 1000 * i + in_round_1, 1, i);
    return b.take();
  };
  const Waterfall waterfall = explain(trace("a", 100), trace("b", 400), std::nullopt).waterfall;
  EXPECT_EQ(waterfall.pairs, 4u);
  EXPECT_NEAR(waterfall.traced_delta_ns(), 150e3, 1e-6);
}

TEST(Waterfall, ClosesWithinTheLargerOfOnePercentAndTheTimedInterval) {
  Parts faster;
  faster.forward -= 100;
  const Trace a = host_trace("a", {}, 10, 1, 0, 5), b = host_trace("b", faster, 10, 1, 0, 6);
  const double step = 1380e3; // the baseline's step, ns
  const auto waterfall = [&](double delta, std::optional<Interval> interval) {
    return explain(a, b, TimedDifference{step, delta, interval}).waterfall;
  };
  const Waterfall exact = waterfall(-100e3, std::nullopt);
  EXPECT_NEAR(exact.residual_ns, 0, 1);
  EXPECT_TRUE(exact.closed);
  EXPECT_NEAR(exact.a.traced_over_timed, 1, 1e-9);
  EXPECT_TRUE(waterfall(-100e3 - 0.0099 * step, std::nullopt).closed);
  const Waterfall open = waterfall(-100e3 - 0.0101 * step, std::nullopt);
  EXPECT_FALSE(open.closed);
  EXPECT_NEAR(open.residual_share, -0.0101, 1e-9);
  EXPECT_NEAR(open.allowed_share, 0.01, 1e-12);
  const Waterfall wide = waterfall(-100e3 - 0.0101 * step, Interval{-150e3, -80e3});
  EXPECT_NEAR(wide.allowed_share, 35e3 / step, 1e-12);
  EXPECT_TRUE(wide.closed);
}

TEST(Waterfall, WithoutATimedDifferenceNothingCloses) {
  const Waterfall waterfall =
      explain(host_trace("a", {}, 4, 1, 1, 1), host_trace("b", {}, 4, 1, 1, 2), std::nullopt)
          .waterfall;
  EXPECT_FALSE(waterfall.closed);
  EXPECT_EQ(waterfall.timed_a_ns, 0);
  EXPECT_EQ(waterfall.unusable, "");
}

TEST(Waterfall, AFailedAuditDowngradesWhatRestsOnIt) {
  Parts faster;
  faster.forward -= 100;
  Trace b = host_trace("b", faster, 10, 1, 1, 6);
  b.audit.push_back({"launch_after_kernel", 0, 0, true, ""});
  b.audit.push_back({"lost_records", 12, 0, false, "stages may lack kernels"});
  const Explanation result =
      explain(host_trace("a", {}, 10, 1, 1, 5), b, TimedDifference{1380e3, -100e3, {}});
  EXPECT_THAT(result.waterfall.unusable, AllOf(HasSubstr("'b'"), HasSubstr("lost_records 12")));
  EXPECT_FALSE(result.waterfall.closed);
  EXPECT_FALSE(stage(result, Stage::Forward).clear);
  EXPECT_TRUE(result.waterfall.a.passed);
  ASSERT_EQ(result.waterfall.b.failed.size(), 1u);
}

TEST(Waterfall, SaysWhyThereAreNoPairs) {
  const Explanation apart = explain(host_trace("a", {}, 0, 1, 1, 5),
                                    host_trace("b", {}, 3, 1, 1, 6),
                                    TimedDifference{1e6, -1e5, {}});
  EXPECT_THAT(apart.waterfall.unusable, HasSubstr("'a'"));
  EXPECT_FALSE(apart.waterfall.closed);
  TraceBuilder gpu("a", true);
  gpu.step(0, 10, 0, 0);
  const Trace empty = gpu.take();
  EXPECT_THAT(explain(empty, empty, std::nullopt).waterfall.unusable, HasSubstr("no device event"));
}

TEST(Waterfall, GainShareIsThatOfTheNamedStages) {
  Waterfall waterfall;
  waterfall.stages = {{Stage::Forward, 10, 4, -6, {}, true},
                      {Stage::Backward, 10, 7, -3, {}, true},
                      {Stage::HostGap, 1, 0, -1, {}, true}};
  EXPECT_NEAR(*gain_share(waterfall, {Stage::Forward}), 0.6, 1e-12);
  EXPECT_NEAR(*gain_share(waterfall, {Stage::Forward, Stage::Backward}), 0.9, 1e-12);
  EXPECT_EQ(*gain_share(waterfall, {}), 0);
  waterfall.timed_delta_ns = -20; // the traces show half of it
  EXPECT_NEAR(*gain_share(waterfall, {Stage::Forward}), 0.3, 1e-12);
  waterfall.timed_delta_ns = -5;
  EXPECT_NEAR(*gain_share(waterfall, {Stage::Forward}), 0.6, 1e-12);
  waterfall.stages[0].delta_ns = 6;
  EXPECT_FALSE(gain_share(waterfall, {Stage::Forward}));
}

TEST(Waterfall, StageNamesReadBack) {
  for (std::size_t i = 0; i < kStages; ++i)
    EXPECT_EQ(stage_from(to_string(static_cast<Stage>(i))), static_cast<Stage>(i));
  EXPECT_EQ(stage_from("host_to_device"), Stage::HostToDevice);
  EXPECT_FALSE(stage_from("Forward"));
}

// 600 launches of 10 rounds with a true difference of 100 us in backward: the 95 % interval must
// hold it in 95 % of them. The bounds are the 0.01 % and 99.99 % points of Bin(600, .95).
TEST(Waterfall, StageIntervalsCoverAtTheirRate) {
  Parts slower;
  slower.backward += 100;
  int covered = 0;
  for (std::uint64_t launch = 0; launch < 600; ++launch) {
    const Explanation result = explain(host_trace("a", {}, 10, 3, 20, 2 * launch + 1),
                                       host_trace("b", slower, 10, 3, 20, 2 * launch + 2),
                                       std::nullopt);
    covered += stage(result, Stage::Backward).interval->contains(100e3) ? 1 : 0;
  }
  EXPECT_GE(covered, 548);
  EXPECT_LE(covered, 588);
}

} // namespace attribution_waterfall_test
} // namespace assay
