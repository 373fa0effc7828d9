// The MDE of a plan from the scatter of results that are there, and from that of its probe.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/ledger/stored_config.h"
#include "core/protocol/protocol.h"
#include "core/statistics/statistics.h"
#include "experiments/analysis/report.h"
#include "model/config/train_config.h"
#include "tests/experiments/runner_fixture.h"

namespace assay {
namespace plan_scatter_test {

using namespace test;

std::string with_launches(int launches) {
  std::string matrix = kSmallMatrix;
  const std::string two = "launches = 2";
  return matrix.replace(matrix.find(two), two.size(), "launches = " + std::to_string(launches));
}

TEST_F(RunnerTest, ThePlanTakesItsMdeFromEarlierResults) {
  plan_ = small_plan(scratch_, with_launches(kFullLaunches));
  run();
  const Report earlier = judge_results(ledger());
  const PlanEstimate known = estimate(plan_, {}, &earlier), assumed = estimate(plan_);
  ASSERT_EQ(known.cells.size(), 2u);
  const CellReport& cell = earlier.cells[0];
  double widest = *cell.control->comparison.effect->mde; // the same launches, rounds and alpha
  for (const Comparison& comparison : cell.comparisons)
    widest = std::max(widest, *comparison.effect->mde);
  EXPECT_TRUE(known.cells[0].mde_from_results);
  EXPECT_NEAR(*known.cells[0].mde, widest, 1e-9);
  EXPECT_FALSE(assumed.cells[0].mde_from_results);
  EXPECT_GT(*assumed.cells[0].mde, 2 * widest) << "an assumed scatter of 10 %";
}

// Two launches have no scatter to speak of; three are fewer than a report's MDE needs.
TEST_F(RunnerTest, ThePlanTakesNoScatterFromTwoLaunches) {
  run();
  const Report earlier = judge_results(ledger());
  EXPECT_FALSE(estimate(plan_, {}, &earlier).cells[0].mde_from_results);
}

TEST_F(RunnerTest, ResultsOfAnotherConfigurationSayNothing) {
  plan_ = small_plan(scratch_, with_launches(kProvisionalLaunches));
  run();
  const Report earlier = judge_results(ledger());
  std::string matrix = kSmallMatrix;
  matrix.insert(matrix.find("preset"), "seq_len = 256\n");
  const PlanEstimate other = estimate(small_plan(scratch_, matrix), {}, &earlier);
  EXPECT_FALSE(other.cells[0].mde_from_results);
  EXPECT_EQ(other.pair_sd, kPairSdCpu);
}

// Two cells of 6 rounds and 2 launches: the MDE is proportional to the scatter alone.
TEST(PlanScatter, TheProbesScatterReplacesTheAssumedOne) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  const double assumed = *estimate(plan).cells[0].mde;
  const ProbeResult calm{20e6, 0, 0, 0.1, 0.03}, rough{20e6, 0, 0, 0.1, 0.25};
  const PlanEstimate probed = estimate(plan, {{1, calm}, {2, rough}});
  EXPECT_NEAR(*probed.cells[0].mde, 0.3 * assumed, 1e-9);
  EXPECT_NEAR(*probed.cells[1].mde, 2.5 * assumed, 1e-9);
  EXPECT_EQ(probed.pair_sd, 0.25) << "the largest of the cells";
  EXPECT_TRUE(probed.pair_sd_measured);
  const ProbeResult too_short{20e6, 0, 0, 0.1};
  const PlanEstimate partly = estimate(plan, {{1, calm}, {2, too_short}});
  EXPECT_NEAR(*partly.cells[0].mde, 0.3 * assumed, 1e-9);
  EXPECT_NEAR(*partly.cells[1].mde, assumed, 1e-9);
  EXPECT_FALSE(partly.pair_sd_measured);
  EXPECT_TRUE(partly.cells[0].pair_sd_measured);
  EXPECT_EQ(partly.cells[0].pair_sd, 0.03);
  EXPECT_FALSE(partly.cells[1].pair_sd_measured);
  EXPECT_EQ(partly.cells[1].pair_sd, kPairSdCpu);
}

// A cell of four replicas alike: four times what the probe's holds, and one step.
TEST(PlanMemory, IsTheProbesWhereItToldIt) {
  const Scratch scratch;
  const Plan plan = small_plan(scratch);
  const std::int64_t gradients =
      model_size(value_or_throw(config_from_json(stored_config(plan.ledger.cells[0].config_json))))
          .gradient_bytes;
  const PlanEstimate assumed = estimate(plan),
                     probed = estimate(plan, {{1, {20e6, 5'000'000, gradients + 700'000, 0.1}}}),
                     below = estimate(plan, {{1, {20e6, 5'000'000, gradients / 2, 0.1}}});
  ASSERT_EQ(probed.cells[0].variants, 4u);
  EXPECT_FALSE(assumed.cells[0].memory_measured);
  EXPECT_TRUE(probed.cells[0].memory_measured);
  EXPECT_FALSE(probed.cells[1].memory_measured);
  EXPECT_EQ(probed.cells[0].memory_bytes, gradients + 20'700'000);
  EXPECT_EQ(below.cells[0].memory_bytes, gradients / 2 + 20'000'000);
  EXPECT_EQ(probed.cells[1].memory_bytes, assumed.cells[1].memory_bytes);
}

Plan with_interleave(const Scratch& scratch, const std::string& interleave) {
  std::string matrix = with_launches(kFullLaunches);
  matrix.insert(matrix.find("[trace]"), "[measure]\ninterleave = \"" + interleave + "\"\n");
  return small_plan(scratch, matrix);
}

// What processes scatter adds to what pairs explain, and a plan with both still sees its MDE.
TEST(PlanScatter, ProcessesOfTheirOwnScatterMore) {
  const Scratch scratch;
  const double one = *estimate(with_interleave(scratch, "twin")).cells[0].mde;
  for (const auto& [interleave, sd] :
       {std::pair{"turns", kTurnsSdCpu}, std::pair{"launches", kApartSdCpu}}) {
    const Plan plan = with_interleave(scratch, interleave);
    const PlanEstimate result = estimate(plan);
    const CellEstimate& cell = result.cells[0];
    EXPECT_EQ(cell.process_sd, sd) << interleave;
    const double alpha = result.judged_alpha, unit = minimum_detectable_effect(1, 5, alpha, 0.8);
    EXPECT_NEAR(std::pow(*cell.mde / unit, 2), std::pow(one / unit, 2) + sd * sd, 1e-9);

    std::mt19937_64 random(11);
    std::normal_distribution<double> normal;
    constexpr int kExperiments = 2000;
    int seen = 0;
    for (int i = 0; i < kExperiments; ++i) {
      std::vector<double> launches;
      for (int launch = 0; launch < 5; ++launch) {
        std::vector<double> pairs;
        for (int round = 0; round < cell.rounds; ++round)
          pairs.push_back(kPairSdCpu * normal(random));
        launches.push_back(*cell.mde + sd * normal(random) + median(pairs));
      }
      seen += t_interval(launches, alpha)->lower > 0;
    }
    EXPECT_GE(seen, 0.8 * kExperiments) << interleave;
    EXPECT_LE(seen, 0.9 * kExperiments) << interleave;
  }
}

// One process after the other: the largest of them; else all that live at once.
TEST(PlanMemory, CountsProcessesThatLiveAtOnce) {
  const Scratch scratch;
  const std::map<std::int64_t, ProbeResult> probe{{1, {20e6, 5'000'000, 1'000'000'000, 0.1}}};
  const auto bytes = [&](const char* interleave) {
    return estimate(with_interleave(scratch, interleave), probe).cells[0].memory_bytes;
  };
  EXPECT_EQ(bytes("turns"), 1'020'000'000);
  EXPECT_EQ(bytes("launches"), 1'005'000'000);
}

TEST(PlanScatter, TheProbeSendsItOrNull) {
  nlohmann::json answer = {
      {"unit_ns", 2e6}, {"replica_bytes", 3}, {"step_bytes", 2}, {"build_seconds", 0.5}};
  EXPECT_EQ(value_or_throw(parse_probe(answer)).pair_sd, std::nullopt);
  answer["pair_sd"] = nullptr;
  EXPECT_EQ(value_or_throw(parse_probe(answer)).pair_sd, std::nullopt);
  answer["pair_sd"] = 0.04;
  EXPECT_EQ(value_or_throw(parse_probe(answer)).pair_sd, 0.04);
}

} // namespace plan_scatter_test
} // namespace assay
