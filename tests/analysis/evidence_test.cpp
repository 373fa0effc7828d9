#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/ledger/ledger.h"
#include "core/ledger/stored_config.h"
#include "experiments/analysis/judging/judge.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/render.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/synthetic_cells.h"

// What a verdict rests on besides times: gates, spans, work, losses and memory.
namespace assay {
namespace evidence_test {

using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::HasSubstr;

TEST(Evidence, FailedGateNamesItsFigures) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels[1].gate_passes = false;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(report).verdict.validity, Validity::ParityFailed);
  EXPECT_EQ(first(report).verdict.reasons.at(0).text,
            "gate bitwise/weights of fast: 0.25, allowed 0 (largest difference of a weight)");
}

TEST(Evidence, LevelMustShowItsOwnSpanAndNotTheOthers) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels[1].engaged = false; // shows the reference's span instead of its own
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(report).verdict.validity, Validity::NotEngaged);
  LedgerData both = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  both.metrics.push_back({1, 2, "engaged/ema_swap/slow", "", 1, ""});
  EXPECT_EQ(first(judge_results(both)).verdict.validity, Validity::NotEngaged);
  EXPECT_THAT(first(judge_results(both)).verdict.reasons.at(0).text, HasSubstr("ema_swap/slow"));
  LedgerData neither = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  std::erase_if(neither.metrics,
                [](const MetricRow& m) { return m.path == "engaged/ema_swap/fast"; });
  EXPECT_THAT(first(judge_results(neither)).verdict.reasons.at(0).text, HasSubstr("ema_swap/fast"));
  LedgerData gate = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  gate.gates.push_back({1, 2, "engaged", false, 0, 1, "kernel missing"});
  EXPECT_EQ(first(judge_results(gate)).verdict.validity, Validity::NotEngaged);
}

// A step outside its graph is no proof against a level as long as its visit is not counted.
TEST(Evidence, StepsWithoutTheirGraphAfterTheWarmUpAreNotTheLevels) {
  const LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const auto judged = [&](int round) {
    LedgerData with = data;
    for (const LaunchRow& launch : data.launches)
      if (launch.kind == LaunchKind::Timed)
        with.metrics.push_back({launch.id, 2, kLastEagerRoundMetric, "round", 1.0 * round, ""});
    return first(judge_results(with)).verdict;
  };
  int counted = 1'000'000;
  for (const VisitRow& visit : data.visits)
    if (!visit.warmup) counted = std::min(counted, visit.round);
  EXPECT_EQ(judged(-1).validity, Validity::Ok);
  EXPECT_EQ(judged(counted - 1).validity, Validity::Ok);
  EXPECT_EQ(judged(counted).validity, Validity::NotEngaged);
  EXPECT_EQ(judged(counted).reasons.at(0).code, ReasonCode::NotEngaged);
  EXPECT_THAT(judged(counted).reasons.at(0).text, HasSubstr("CUDA graph"));
}

// 1.2 times the time for 1.5 times the tokens is 0.8 times the time of a token.
TEST(Evidence, TheTimeOfATokenIsComparedWhereStepsTakeOtherTokens) {
  SyntheticPlan plan = plan_of(two_level_cell(0));
  plan.noise = 0;
  LedgerData data = synthetic_ledger(plan);
  for (VisitRow& visit : data.visits) {
    visit.wall_ns = 30'000'000;
    visit.tokens = 500;
    if (visit.variant != 2) continue;
    visit.wall_ns = 36'000'000;
    visit.tokens = 750;
    visit.steps = 3;
  }
  EXPECT_EQ(first(judge_results(data)).verdict.validity, Validity::Invalid);
  data.cells[0].unit = "token";
  const Comparison comparison = first(judge_results(data));
  EXPECT_EQ(comparison.verdict.validity, Validity::Ok);
  EXPECT_EQ(comparison.verdict.speed, Speed::Faster);
  EXPECT_NEAR(comparison.effect->theta.value, std::log(0.8), 1e-12);
  EXPECT_NEAR(comparison.effect->a_ns, 60'000, 1e-6);
  EXPECT_NEAR(comparison.effect->b_ns, 48'000, 1e-6);
}

// Two ranks that need 0.56 times the time of a token do 1 / (2 * 0.56) of what two should.
TEST(Evidence, EfficiencyIsToldWhereRanksDifferAndTokensAreTimed) {
  SyntheticPlan plan = plan_of(two_level_cell(std::log(0.56)));
  plan.noise = 0.001;
  LedgerData data = synthetic_ledger(plan);
  EXPECT_EQ(first(judge_results(data)).times_ranks, 0);
  data.cells[0].unit = "token";
  EXPECT_EQ(first(judge_results(data)).times_ranks, 0) << "as many ranks on both sides";
  for (VariantRow& variant : data.variants) {
    nlohmann::json config = stored_config(variant.config_json);
    config["ranks"] = variant.id == 2 ? 2 : 1;
    variant.config_json = config.dump();
  }
  const Report report = judge_results(data);
  EXPECT_EQ(first(report).times_ranks, 2);
  EXPECT_NEAR(scaling_efficiency(first(report), std::log(0.56)), 0.893, 1e-3);
  const nlohmann::json json = nlohmann::json::parse(render_json(report));
  const nlohmann::json& scaling = json["cells"][0]["comparisons"][0]["scaling"];
  EXPECT_EQ(scaling["times_ranks"], 2);
  EXPECT_NEAR(scaling["efficiency"], 0.893, 0.005);
  EXPECT_LT(scaling["interval"][0], scaling["efficiency"]);
  EXPECT_GT(scaling["interval"][1], scaling["efficiency"]);
}

TEST(Evidence, IdenticalWorkIsANoOpWithProof) {
  SyntheticCell cell = two_level_cell(0);
  cell.levels[1].same_work = true;
  SyntheticPlan plan = plan_of(cell);
  plan.noise = 0.01;
  plan.rounds = 80;
  const Report report = judge_results(synthetic_ledger(plan));
  EXPECT_TRUE(first(report).verdict.has(Tag::NoOp));
  EXPECT_EQ(first(report).verdict.speed, Speed::NoEffect);
  EXPECT_TRUE(has_reason(first(report).verdict, ReasonCode::SameWork));
  LedgerData dispatch = synthetic_ledger(plan);
  dispatch.metrics.push_back({1, 1, "ops/aten::to", "calls", 6, ""}); // a cast of bf16 to bf16
  EXPECT_TRUE(first(judge_results(dispatch)).verdict.has(Tag::NoOp));
  dispatch.metrics.push_back({1, 1, "ops/aten::_to_copy", "calls", 6, ""});
  EXPECT_FALSE(first(judge_results(dispatch)).verdict.has(Tag::NoOp));
  plan.cells[0].levels[1].effect = -0.1; // same operators, less time: the work inside them differs
  const Report inside = judge_results(synthetic_ledger(plan));
  EXPECT_FALSE(first(inside).verdict.has(Tag::NoOp));
  EXPECT_EQ(first(inside).verdict.speed, Speed::Faster);
}

TEST(Evidence, QualityByClassAndGate) {
  const auto quality = [](const std::string& equivalence, const std::string& gate) {
    SyntheticCell cell = two_level_cell(-0.1);
    cell.equivalence = equivalence;
    cell.levels[1].gate = gate;
    return first(judge_results(synthetic_ledger(plan_of(cell)))).verdict.quality;
  };
  EXPECT_EQ(quality("bitwise", "bitwise/weights"), Quality::Bitwise);
  EXPECT_EQ(quality("bitwise", "math/weights"), Quality::Equivalent);
  EXPECT_EQ(quality("math", "math/gradients"), Quality::Equivalent);
  EXPECT_EQ(quality("objective", "isolation/documents"), Quality::Unknown);
  EXPECT_EQ(quality("statistical", "bitwise/weights"), Quality::Unknown);
  EXPECT_EQ(quality("bitwise", "isolation/documents"), Quality::Unknown);
}

// That a skipped update changes no bit says nothing about the others.
TEST(Evidence, ABitwiseGateOfAPartDoesNotOutweighAMeasuredDifference) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.equivalence = "math";
  cell.levels[1].gate = "bitwise/skipped";
  LedgerData data = synthetic_ledger(plan_of(cell));
  EXPECT_EQ(first(judge_results(data)).verdict.quality, Quality::Bitwise);
  GateRow weights = *std::ranges::find(data.gates, "bitwise/skipped", &GateRow::name);
  weights.name = "math/weights";
  data.gates.push_back(weights);
  EXPECT_EQ(first(judge_results(data)).verdict.quality, Quality::Bitwise) << "no difference";
  data.gates.back().value = 3e-7;
  EXPECT_EQ(first(judge_results(data)).verdict.quality, Quality::Equivalent);
}

TEST(Evidence, NanOnlyInBHarms) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels[1].nan_in_launch = 1;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(first(report).verdict.quality, Quality::Harmed);
  EXPECT_EQ(headline(first(report).verdict).text, "harms training");
  const Alarm* retired = find_alarm(report, AlarmCode::Retired);
  ASSERT_NE(retired, nullptr);
  EXPECT_EQ(retired->cell, report.cells[0].cell.id);
  EXPECT_THAT(retired->text, HasSubstr("'fast' is nan"));
  cell.levels[0].nan_in_launch = 1; // the reference too: the toggle is not the cause
  EXPECT_EQ(first(judge_results(synthetic_ledger(plan_of(cell)))).verdict.quality,
            Quality::Bitwise);
}

std::int64_t control_of(const LedgerData& data) {
  for (const VariantRow& variant : data.variants)
    if (variant.role == Role::Control) return variant.id;
  return 0;
}

// Gates hold for the precision that they compare in; what the timed steps computed is in their
// losses.
TEST(Quality, BitwiseEndsWhereTimedLossesPartButTheControlsDoNot) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const std::int64_t control = control_of(data);
  for (VisitRow& visit : data.visits) visit.loss = visit.variant == 2 ? 3.1 : 3.0;
  const Verdict verdict = first(judge_results(data)).verdict;
  EXPECT_EQ(verdict.quality, Quality::Unknown);
  EXPECT_EQ(first(judge_results(data)).evidence.quality_reason.code, ReasonCode::TimedLossesDiffer);
  for (VisitRow& visit : data.visits)
    if (visit.variant == control) visit.loss = 3.05; // rounding in another order parts them too
  EXPECT_EQ(first(judge_results(data)).verdict.quality, Quality::Bitwise);
}

// A ledger with one memory launch, in which `fast` needs 20 % less.
LedgerData one_memory_launch() {
  SyntheticCell cell = two_level_cell(0);
  cell.levels[1].memory_ratio = 0.8;
  LedgerData data = synthetic_ledger(plan_of(cell));
  std::erase_if(data.launches, [](const LaunchRow& launch) {
    return launch.kind == LaunchKind::Memory && launch.index > 1;
  });
  return data;
}

// Changes the control's bytes, or takes them away: share 0.
void change_control(LedgerData& data, double share) {
  const std::int64_t control = control_of(data);
  for (MetricRow& metric : data.metrics)
    if (metric.path == "memory/peak_bytes" && metric.variant == control) metric.value *= share;
}

TEST(Memory, OneLaunchIsExactWhereTheControlNeedsItsReferencesBytes) {
  const Report report = judge_results(one_memory_launch());
  const MemoryEffect& memory = *first(report).memory;
  ASSERT_EQ(memory.launches, 1);
  EXPECT_TRUE(memory.exact);
  EXPECT_EQ(memory_text(memory), "-20.0 %");
  EXPECT_EQ(find_alarm(report, AlarmCode::MemoryDiffers), nullptr);
}

TEST(Memory, OfOneLaunchTheControlBoundsTheFigure) {
  LedgerData data = one_memory_launch();
  change_control(data, 1.05);
  const Report report = judge_results(data);
  const MemoryEffect& memory = *first(report).memory;
  EXPECT_FALSE(memory.exact);
  EXPECT_NEAR(memory.log_ratio.at_95->upper, std::log(0.8) + std::log(1.05), 1e-6);
  const Alarm* differs = find_alarm(report, AlarmCode::MemoryDiffers);
  ASSERT_NE(differs, nullptr);
  EXPECT_THAT(differs->text, HasSubstr("5 %"));
}

TEST(Memory, OneLaunchWithoutControlGivesNoInterval) {
  LedgerData data = one_memory_launch();
  change_control(data, 0);
  ClaimRow claim = step_time_claim(0.1, 0.3);
  claim.metric = "peak_memory";
  data.claims = {claim};
  const Report report = judge_results(data);
  EXPECT_FALSE(first(report).memory->exact);
  EXPECT_FALSE(first(report).memory->log_ratio.at_95);
  EXPECT_EQ(report.claims.at(0).state, ClaimState::Undecided);
  EXPECT_EQ(report.claims.at(0).reason.code, ReasonCode::NoInterval);
}

TEST(Memory, LaunchesThatDifferGiveAnInterval) {
  SyntheticCell cell = two_level_cell(0);
  cell.levels[1].memory_ratio = 0.8;
  LedgerData data = synthetic_ledger(plan_of(cell));
  for (MetricRow& metric : data.metrics)
    if (metric.path == "memory/peak_bytes" && metric.variant == 2)
      metric.value *= 1 + 0.01 * static_cast<double>(metric.launch % 3);
  EXPECT_FALSE(first(judge_results(data)).memory->exact);
  EXPECT_GT(first(judge_results(data)).memory->log_ratio.at_95->half_width(), 0.001);
}

// A first step of 40 times a step of 10 ms, of the side that runs first; each visit drops its
// first.
TEST(Evidence, TheFirstStepOfALaunchIsPrintedAndCountsNowhere) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  for (VisitRow& visit : data.visits) visit.sample_ns.clear();
  const Report without = judge_results(data);
  EXPECT_FALSE(first(without).a_first || first(without).b_first);
  std::map<std::pair<std::int64_t, std::int64_t>, VisitRow*> firsts;
  for (VisitRow& visit : data.visits) {
    const std::int64_t ns = 10'000'000 * visit.variant;
    visit.steps = 2;
    visit.sample_ns = {9 * ns, ns, ns};
    VisitRow*& row = firsts[{visit.launch, visit.variant}];
    if (row == nullptr || visit.round < row->round) row = &visit;
  }
  std::set<std::int64_t> a_first, b_first; // launches
  for (auto& [place, visit] : firsts) {
    if (visit->position != 0) continue;
    visit->sample_ns[0] = 400'000'000 * visit->variant;
    if (visit->variant == 1) a_first.insert(visit->launch);
    if (visit->variant == 2) b_first.insert(visit->launch);
  }
  const Report report = judge_results(data);
  ASSERT_TRUE(first(report).a_first && first(report).b_first);
  EXPECT_EQ(first(report).a_first->times, 40);
  EXPECT_EQ(first(report).a_first->ns, 400e6);
  EXPECT_EQ(first(report).b_first->ns, 800e6);
  EXPECT_EQ(static_cast<std::size_t>(first(report).a_first->launches), a_first.size());
  EXPECT_EQ(static_cast<std::size_t>(first(report).b_first->launches), b_first.size());
  EXPECT_EQ(first(report).effect->theta.value, first(without).effect->theta.value);
  EXPECT_THAT(render_table(report, {.width = 200}, {.cell = "", .verbose = true}),
              HasSubstr("baseline 400 ms, 40.0 times the median; candidate 800 ms, 40.0"));
  for (CellRow& cell : data.cells) cell.unit = "evaluation";
  EXPECT_FALSE(first(judge_results(data)).a_first);
}

} // namespace evidence_test
} // namespace assay
