#include "experiments/unpaired/unpaired.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/ledger/launch_rules.h"
#include "experiments/unpaired/render.h"
#include "experiments/unpaired/unit_times.h"
#include "tests/analysis/unpaired/two_runs.h"
#include "tests/names.h"

namespace assay {
namespace unpaired_test {

using test::compared;
using test::run_of;
using test::set_times;
using test::time_of;
using testing::HasSubstr;
using testing::Not;

UnpairedReport report_of(const LedgerData& first, const LedgerData& second) {
  return value_or_throw(compared(first, second));
}

std::string error_of(const LedgerData& first, const LedgerData& second) {
  const Result<UnpairedReport> report = compared(first, second);
  return report ? "" : report.error().message;
}

// Times of slow and fast, and of the control a little beside slow's.
void set_all(LedgerData& data, const std::vector<double>& slow, double ratio) {
  std::vector<double> fast, control;
  for (std::size_t i = 0; i < slow.size(); ++i) {
    fast.push_back(slow[i] * ratio);
    control.push_back(slow[i] * (i % 2 == 0 ? 1.001 : 0.999));
  }
  set_times(data, "slow", slow);
  set_times(data, "fast", fast);
  set_times(data, "control", control);
}

TEST(UnitTimes, AreMediansOverTheVisitsThatCount) {
  LedgerData data = run_of(1);
  const std::int64_t slow = test::variant_id(data, "slow");
  int timed = 0;
  for (VisitRow& visit : data.visits) {
    const LaunchRow& launch =
        data.launches.at(static_cast<std::size_t>(visit.launch - 1)); // ids count from 1
    if (visit.variant != slow || launch.kind != LaunchKind::Timed) continue;
    visit.steps = 2;
    visit.tokens = 2 * 256;
    visit.wall_ns = visit.warmup ? 99'000'000 : 2'000'000 * (1 + timed++ % 8); // 1 to 8 ms a unit
    if (launch.index == 1 && visit.wall_ns == 16'000'000) visit.covariates.steal_share = 0.5;
    if (launch.index == 2 && visit.wall_ns > 6'000'000) visit.covariates.steal_share = 0.5;
  }
  const std::vector<CellView> cells = cell_views(data);
  const UnitTimes times = unit_times(cells.at(0), *cells.at(0).baseline);
  ASSERT_EQ(times.by_launch.size(), 4u) << "launch 2 has lost more than half of its visits";
  EXPECT_NEAR(times.by_launch[0], std::log(4e6), 1e-12) << "1 to 7 ms: the visit of 8 is excluded";
  EXPECT_NEAR(times.by_launch[1], (std::log(4e6) + std::log(5e6)) / 2, 1e-12);
  EXPECT_EQ(times.tokens_per_unit, 256);
}

// Logs of the first run 0 and 0.02 in turns, of the second 0.1 above: s^2 = 1.2e-4 and 1.2e-4 of 5
// launches, error^2 = 4.8e-5, df = 8.
TEST(TwoRuns, TheIntervalIsWelchsOverLaunches) {
  LedgerData first = run_of(1), second = run_of(2);
  const double up = std::exp(0.02), later = std::exp(0.1);
  set_all(first, {10, 10 * up, 10, 10 * up, 10}, 0.9);
  set_all(second, {10 * later, 10 * later * up, 10 * later, 10 * later * up, 10 * later}, 0.9);
  const UnpairedReport report = report_of(first, second);
  const RunDifference& slow = time_of(report, "slow").runs;
  ASSERT_TRUE(slow.difference && slow.interval);
  EXPECT_NEAR(slow.difference->value, 0.1, 1e-6);
  EXPECT_NEAR(slow.difference->error, std::sqrt(4.8e-5), 1e-8);
  EXPECT_NEAR(slow.difference->df, 8, 1e-4);
  EXPECT_EQ(report.comparisons, 3) << "two times and one effect";
  EXPECT_DOUBLE_EQ(report.judged_alpha, 0.05 / 3);
  const double reach = student_quantile(1 - 0.05 / 6, slow.difference->df) * slow.difference->error;
  EXPECT_NEAR(slow.interval->upper - slow.difference->value, reach, 1e-9);
  EXPECT_EQ(slow.state, Unpaired::Slower);
}

TEST(TwoRuns, TheSmallerAlphaIsShared) {
  LedgerData first = run_of(1), second = run_of(2);
  second.spec.alpha = 0.01;
  EXPECT_DOUBLE_EQ(report_of(first, second).judged_alpha, 0.01 / 3);
}

TEST(TwoRuns, StatesFollowTheIntervalAndTheLaunches) {
  LedgerData first = run_of(1), second = run_of(2);
  const std::vector<double> times{10, 10.1, 10, 10.1, 10}, longer{11, 11.1, 11, 11.1, 11};
  set_all(first, times, 0.9);
  set_all(second, longer, 0.9);
  EXPECT_EQ(time_of(report_of(first, second), "slow").runs.state, Unpaired::Slower);
  EXPECT_EQ(time_of(report_of(second, first), "slow").runs.state, Unpaired::Faster);
  set_all(second, {9, 11.1, 10.01, 9.5, 10.7}, 0.9);
  EXPECT_EQ(time_of(report_of(first, second), "slow").runs.state, Unpaired::NoDifferenceShown);
}

TEST(TwoRuns, ADirectionNeedsFiveLaunchesInEachRun) {
  LedgerData first = run_of(1), four = run_of(2, -0.1, 4), one = run_of(3, -0.1, 1);
  set_all(first, {10, 10.1, 10, 10.1, 10}, 0.9);
  set_all(four, {20, 20.1, 20, 20.1}, 0.9);
  const UnpairedReport report = report_of(first, four);
  EXPECT_EQ(time_of(report, "fast").runs.state, Unpaired::TooFewLaunches);
  EXPECT_THAT(time_of(report, "fast").runs.reason, test::names("5 and 4 launches", "needs 5"));
  EXPECT_TRUE(time_of(report, "fast").runs.interval) << "it is printed all the same";
  const UnpairedReport single = report_of(first, one);
  EXPECT_FALSE(time_of(single, "fast").runs.interval);
  EXPECT_NE(time_of(single, "fast").runs.reason, "");
}

TEST(TwoRuns, WhatIsNotValidIsNotJudged) {
  LedgerData first = run_of(1), second = run_of(2);
  std::size_t timed = 0;
  for (LaunchRow& launch : second.launches)
    if (launch.kind == LaunchKind::Timed && timed++ == 0) launch.identity.build = "another";
  const UnpairedReport report = report_of(first, second);
  for (const TimeChange& change : report.cells.at(0).times) {
    EXPECT_EQ(change.runs.state, Unpaired::NotJudged);
    EXPECT_THAT(change.runs.reason, test::names("INVALID in the second", "builds"));
    EXPECT_TRUE(change.runs.interval) << "the figures stay";
  }
  EXPECT_EQ(report.cells.at(0).effects.at(0).runs.state, Unpaired::NotJudged);
}

// The times rise by a fifth between the runs; the effect does not change at all.
TEST(TwoRuns, DriftBetweenThemLeavesPairedEffectsAlone) {
  LedgerData first = run_of(1), second = run_of(2);
  set_all(first, {10, 10.2, 9.9, 10.1, 10}, 0.9);
  set_all(second, {12, 12.2, 11.9, 12.1, 12}, 0.9);
  const UnpairedReport report = report_of(first, second);
  EXPECT_EQ(time_of(report, "slow").runs.state, Unpaired::Slower);
  EXPECT_EQ(time_of(report, "fast").runs.state, Unpaired::Slower);
  const EffectChange& effect = report.cells.at(0).effects.at(0);
  EXPECT_NEAR(effect.runs.difference->value, 0, 1e-6);
  EXPECT_EQ(effect.runs.state, Unpaired::NoDifferenceShown);
}

// fast takes 0.9 and 0.95 of slow in turns, slow varies by its own: the ratio of half-widths is
// that of two hand-made intervals.
TEST(TwoRuns, TheWidthIsHeldAgainstTheWiderPairedInterval) {
  LedgerData first = run_of(1), second = run_of(2);
  set_all(first, {10, 12, 10, 12, 11}, 0.9);
  set_all(second, {10.01, 12.01, 10.01, 12.01, 11.5}, 0.9);
  set_times(second, "fast", {9.009, 11.4095, 9.009, 11.4095, 10.35});
  const UnpairedReport report = report_of(first, second);
  const TimeChange& fast = time_of(report, "fast");
  const std::vector<double> logs{
      std::log(0.9), std::log(0.95), std::log(0.9), std::log(0.95), std::log(0.9)};
  const double paired = t_interval(logs, report.judged_alpha)->half_width();
  ASSERT_TRUE(fast.width_ratio);
  EXPECT_NEAR(*fast.width_ratio, fast.runs.interval->half_width() / paired, 1e-4);
  EXPECT_GT(*fast.width_ratio, 2);
  EXPECT_NEAR(*time_of(report_of(second, first), "fast").width_ratio, *fast.width_ratio, 1e-9)
      << "whichever run it is in";
  EXPECT_TRUE(time_of(report, "slow").width_ratio) << "the baseline is held against its control";
}

TEST(TwoRuns, NeedACellAndAVariantInCommon) {
  LedgerData first = run_of(1), second = run_of(2);
  second.cells.at(0).name = "other";
  EXPECT_THAT(error_of(first, second), test::names("old", "new", "ema_swap", "other"));
  second.cells.at(0).name = "ema_swap";
  for (VariantRow& variant : second.variants)
    if (variant.role != Role::Control) variant.name += "_2";
  EXPECT_THAT(error_of(first, second), test::names("cell 'ema_swap', slow: only in the first"));
}

TEST(TwoRuns, NeedTheSameConfiguration) {
  LedgerData first = run_of(1), second = run_of(2);
  for (VariantRow& variant : second.variants)
    if (variant.name == "fast")
      variant.config_json = R"({"device":"cpu","precision":"bf16","eval_interval":100})";
  const UnpairedReport report = report_of(first, second);
  EXPECT_EQ(report.comparisons, 1) << "slow alone: fast trains another way";
  EXPECT_TRUE(report.cells.at(0).effects.empty());
  EXPECT_THAT(
      report.cells.at(0).not_comparable.at(0),
      test::names("fast", "precision", R"("fp32" in the first)", R"("bf16" in the second)"));
}

// Places of data, threads and the seed say where and on what a run trains: causes, no other work.
TEST(TwoRuns, ConditionsAreCausesAndNoOtherConfiguration) {
  LedgerData first = run_of(1), second = run_of(2);
  const std::string config =
      R"({"device":"cpu","precision":"fp32","eval_interval":100,"seed":9,"data":"/mnt/corpus"})";
  second.cells.at(0).config_json = config;
  for (VariantRow& variant : second.variants) variant.config_json = config;
  for (LaunchRow& launch : second.launches) {
    launch.identity.libtorch = "2.12.0";
    launch.identity.build = "newer";
    launch.identity.environment = "OMP_NUM_THREADS=2\nNCCL_ALGO=Ring\n";
    second.metrics.push_back({launch.id, 0, kDataFingerprintMetric, "", 0, "documents ab"});
  }
  for (VisitRow& visit : second.visits) visit.covariates.sm_clock_mhz = 1980;
  const UnpairedReport report = report_of(first, second);
  EXPECT_EQ(report.comparisons, 3);
  std::vector<std::string> texts;
  for (const Cause& cause : report.cells.at(0).causes)
    texts.push_back(cause.what + ": " + cause.first + " | " + cause.second);
  EXPECT_EQ(texts,
            (std::vector<std::string>{"LibTorch: 2.11.0 | 2.12.0",
                                      "environment: unset | NCCL_ALGO=Ring",
                                      "clocks: not recorded | floating (1980 MHz in every visit)",
                                      "data fingerprint: not recorded | documents ab",
                                      "seed: 1 | 9"}))
      << "a build is what such a comparison is about";
}

// Other work beside one of the runs may be the whole difference.
TEST(TwoRuns, DisturbanceIsACause) {
  const LedgerData first = run_of(1);
  LedgerData second = run_of(2);
  for (VisitRow& visit : second.visits)
    if (visit.launch == second.visits.back().launch) visit.covariates.steal_share = 0.9;
  const std::vector<Cause> causes = report_of(first, second).cells.at(0).causes;
  EXPECT_EQ(causes.at(0), (Cause{"launches disturbed by other work", "0", "1"}));
}

TEST(TwoRuns, AKeyThatOneDoesNotKnowHasItsDefault) {
  EXPECT_EQ(config_difference(R"({"preset":"tiny"})", R"({"preset":"tiny","step_graph":"off"})"),
            "");
  EXPECT_THAT(config_difference(R"({"preset":"tiny"})", R"({"preset":"tiny","step_graph":"on"})"),
              test::names("step_graph", "\"off\" in the first"));
  EXPECT_THAT(config_difference(R"({"gone":1})", R"({"preset":"tiny"})"), HasSubstr("gone"))
      << "what this build cannot read is compared as it stands";
}

TEST(TwoRuns, NeedTheSameUnitOfWork) {
  LedgerData first = run_of(1), second = run_of(2);
  for (VisitRow& visit : second.visits) visit.tokens = 512;
  EXPECT_THAT(error_of(first, second),
              test::names("tokens per unit: 256 in the first, 512 in the second"));
  second = run_of(2);
  second.cells.at(0).unit = "evaluation";
  EXPECT_THAT(error_of(first, second),
              test::names("unit: train_step in the first, evaluation in the second"));
}

TEST(TwoRuns, ACopyIsNoSecondMeasurement) {
  const LedgerData first = run_of(1);
  LedgerData second = run_of(2);
  EXPECT_THAT(error_of(first, first), test::names("same measurement", "timed 1", "ema_swap"));
  // One launch is enough, whatever its number there.
  std::vector<VisitRow> copied;
  for (const VisitRow& visit : first.visits)
    if (visit.launch == first.visits.back().launch) copied.push_back(visit);
  const std::int64_t last = second.visits.back().launch;
  std::erase_if(second.visits, [&](const VisitRow& visit) { return visit.launch == last; });
  for (VisitRow visit : copied) {
    visit.launch = last;
    second.visits.push_back(visit);
  }
  EXPECT_THAT(error_of(first, second), test::names("same measurement", "timed 5"));
}

TEST(TwoRuns, NoLineReadsAsAVerdict) {
  LedgerData first = run_of(1), second = run_of(2);
  set_all(first, {10, 10.1, 10, 10.1, 10}, 0.9);
  set_all(second, {11, 11.1, 11, 11.1, 11}, 0.8);
  const std::string table = render_table(report_of(first, second), {.width = 120});
  EXPECT_THAT(table, HasSubstr("slower (unpaired)"));
  EXPECT_THAT(table, HasSubstr("relatively faster (unpaired)"));
  EXPECT_THAT(table, HasSubstr("98.33 % interval"));
  for (const char* verdict : {"FASTER", "SLOWER", "NO_EFFECT"})
    EXPECT_THAT(table, Not(HasSubstr(verdict)));
  for (const int width : {40, 60, 80})
    EXPECT_THAT(render_table(report_of(first, second), {.width = width, .unicode = false}),
                HasSubstr("unpaired"));
}

TEST(TwoRuns, JsonHasFiguresAndCells) {
  LedgerData first = run_of(1), second = run_of(2);
  set_all(first, {10, 10.1, 10, 10.1, 10}, 0.9);
  set_all(second, {11, 11.1, 11, 11.1, 11}, 0.9);
  const nlohmann::json json = to_json(report_of(first, second));
  const nlohmann::json& slow = json["cells"][0]["times"][0];
  EXPECT_EQ(slow["variant"], "slow");
  EXPECT_EQ(slow["state"], "slower");
  EXPECT_EQ(slow["unpaired"], true);
  EXPECT_NEAR(slow["change"].get<double>(), 0.1, 2e-3);
  EXPECT_NEAR(slow["first_unit_ns"].get<double>(), 10.04e6, 1e4);
  EXPECT_TRUE(to_json(report_of(first, second), "none")["cells"].empty());
}

} // namespace unpaired_test
} // namespace assay
