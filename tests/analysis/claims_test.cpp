#include "experiments/analysis/claims.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/result.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "model/config/train_config.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace claims_test {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

struct Case {
  double lo, hi, l, u;
  ClaimState state;
  bool exceeds;
};

// Claimed 10-15 %, smallest effect of interest 1 %, unless the row says otherwise.
TEST(ClaimRule, EveryBranchAndItsBorders) {
  constexpr double kSmallest = 0.01;
  const std::vector<Case> cases{
      {.10, .15, -.03, -.011, ClaimState::Opposite, false},
      {.10, .15, -.03, -.01, ClaimState::Refuted, false}, // no loss of interest
      {.10, .15, -.003, -.002, ClaimState::Refuted, false},
      {.10, .15, .11, .13, ClaimState::Confirmed, false},
      {.10, .15, .10, .30, ClaimState::Confirmed, false},
      {.10, .15, .16, .20, ClaimState::Confirmed, true},
      {.10, .15, -.02, .009, ClaimState::Refuted, false},
      {.10, .15, .001, .009, ClaimState::Refuted, false},
      {.10, .15, -.02, .00, ClaimState::Refuted, false},
      {.10, .15, .03, .06, ClaimState::Shortfall, false},
      {.10, .15, .005, .06, ClaimState::Shortfall, false},
      {.10, .15, .03, .12, ClaimState::Consistent, false},
      {.10, .15, .011, .40, ClaimState::Consistent, false},
      {.10, .15, .005, .12, ClaimState::Undecided, false},
      {.10, .15, -.05, .12, ClaimState::Undecided, false},
      {.10, .15, -.05, .50, ClaimState::Undecided, false}, // an imprecise run never confirms
      {.10, .15, -.05, .05, ClaimState::Undecided, false}, // excluded, but so is nothing below it
      {.10, .15, .00, .0999, ClaimState::Undecided, false},
      {.10, .15, -.05, .10, ClaimState::Undecided, false},
      {.005, .02, -.02, .004, ClaimState::Refuted, false}, // a claim below it: its own edge counts
      {-.02, .02, -.015, -.01, ClaimState::Confirmed, false}, // a bounded cost is kept
      {-.02, .02, -.10, -.05, ClaimState::Refuted, false},
      // Without a figure: at least the smallest effect of interest.
      {0, kNoEnd, .012, .50, ClaimState::Confirmed, false},
      {0, kNoEnd, .005, .50, ClaimState::Undecided, false},
      {0, kNoEnd, -.005, .009, ClaimState::Refuted, false},
      {0, kNoEnd, -.03, -.02, ClaimState::Opposite, false},
      {.10, kNoEnd, .20, .90, ClaimState::Confirmed, false},
      // A cost of at most 2 %.
      {-.02, 0, -.015, -.005, ClaimState::Confirmed, false},
      {-.02, 0, -.10, -.05, ClaimState::Refuted, false},
      {-.02, 0, .011, .02, ClaimState::Confirmed, true},
  };
  for (const Case& c : cases) {
    const ClaimDecision decision = decide_claim({c.lo, c.hi}, {c.l, c.u}, kSmallest);
    EXPECT_EQ(to_string(decision.state), to_string(c.state))
        << c.lo << ' ' << c.hi << ' ' << c.l << ' ' << c.u;
    EXPECT_EQ(decision.exceeds, c.exceeds) << c.l;
  }
}

TEST(ClaimMetricTest, ConversionsOfTheRulings) {
  // +10 to +15 % throughput is -9.1 to -13.0 % step time.
  EXPECT_NEAR(std::expm1(theta_of(ClaimMetric::Throughput, 0.10)), -0.0909, 1e-4);
  EXPECT_NEAR(std::expm1(theta_of(ClaimMetric::Throughput, 0.15)), -0.1304, 1e-4);
  EXPECT_NEAR(gain_of(ClaimMetric::Throughput, std::log(1 / 1.25)), 0.25, 1e-12);
  EXPECT_NEAR(gain_of(ClaimMetric::StepTime, std::log(0.8)), 0.2, 1e-12);
  EXPECT_NEAR(gain_of(ClaimMetric::PeakMemory, std::log(1.3)), -0.3, 1e-12);
  EXPECT_NEAR(sesoi_gain(ClaimMetric::Throughput, 0.01), 1 / 0.99 - 1, 1e-12);
  const Interval gain = gain_of(ClaimMetric::Throughput, Interval{std::log(0.8), std::log(0.9)});
  EXPECT_NEAR(gain.lower, 1 / 0.9 - 1, 1e-12);
  EXPECT_NEAR(gain.upper, 0.25, 1e-12);
  for (const ClaimMetric metric : {ClaimMetric::StepTime, ClaimMetric::Throughput})
    for (const double g : {-0.5, 0.0, 0.3})
      EXPECT_NEAR(gain_of(metric, theta_of(metric, g)), g, 1e-12);
  EXPECT_FALSE(claim_metric("energy"));
}

// A loss that is said to stay at 98 % of ln V or more: its own figure is the smallest of interest.
TEST(ClaimRule, AnUntrainedLossIsConfirmedOrRefutedByItsFigure) {
  const Interval claimed{.98, kNoEnd};
  EXPECT_EQ(decide_claim(claimed, {.985, 1.01}, .98).state, ClaimState::Confirmed);
  EXPECT_EQ(decide_claim(claimed, {.15, .37}, .98).state, ClaimState::Refuted);
  EXPECT_EQ(decide_claim(claimed, {.90, 1.0}, .98).state, ClaimState::Undecided);
}

// deltanet_mla base: 166.1 M parameters, a vocabulary of 50304.
TEST(ClaimMetricTest, ScalesOfMetricsThatCountTheModel) {
  CellRow cell;
  cell.config_json = R"({"preset":"base"})";
  TrainConfig config;
  config.preset = "base";
  const auto parameters =
      static_cast<double>(model_size(value_or_throw(resolve(config))).parameters);
  EXPECT_EQ(parameters, 166080960);
  const double three_copies = 3 * 4 * parameters;
  EXPECT_DOUBLE_EQ(gain_scale(ClaimMetric::EmaMemory, cell, 1, three_copies).value(), 1);
  EXPECT_DOUBLE_EQ(gain_scale(ClaimMetric::EmaMemory, cell, 1, 3 * three_copies).value(), 3);
  EXPECT_DOUBLE_EQ(gain_scale(ClaimMetric::SecondsPerParameter, cell, 2e9, 1).value(),
                   2 / parameters);
  EXPECT_DOUBLE_EQ(gain_scale(ClaimMetric::UntrainedLoss, cell, 1, 1).value(), 1 / std::log(50304));
  EXPECT_EQ(gain_scale(ClaimMetric::Throughput, cell, 5, 5), 1);
  cell.config_json = R"({"preset":"of another build"})";
  EXPECT_FALSE(gain_scale(ClaimMetric::EmaMemory, cell, 1, 1));
  EXPECT_EQ(gain_scale(ClaimMetric::PeakMemory, cell, 1, 1), 1);
}

// "fast" spares one of the three copies that "slow" holds while it evaluates, and 10 % of its time.
class ModelClaims : public testing::Test {
protected:
  ClaimResult judged(const char* metric, double lo, double hi) {
    ClaimRow claim = synthetic::step_time_claim(lo, hi);
    claim.metric = metric;
    data_.claims = {claim};
    return judge_results(data_).claims.at(0);
  }
  static LedgerData ledger() {
    synthetic::SyntheticPlan plan;
    plan.noise = 0.02;
    plan.cells = {synthetic::two_level_cell(std::log(0.9))};
    plan.cells[0].config_json = R"({"device":"cpu","preset":"tiny"})";
    plan.cells[0].loss_seeds = 4;
    return synthetic::synthetic_ledger(plan);
  }
  double parameters() const {
    TrainConfig config;
    return static_cast<double>(model_size(value_or_throw(resolve(config))).parameters);
  }
  LedgerData data_ = ledger();
};

TEST_F(ModelClaims, MemoryOfWeightsAverageAndCopy) {
  for (MetricRow& metric : data_.metrics)
    if (metric.path == "memory/peak_bytes")
      metric.value = 4 * parameters() * (data_.variant(metric.variant).level == "slow" ? 10 : 9);
  const ClaimResult result = judged("ema_memory", 0.58, 0.60);
  EXPECT_NEAR(result.gain.value(), 1.0 / 3, 1e-12); // 10 % of the peak
  EXPECT_EQ(result.state, ClaimState::Shortfall);
  EXPECT_EQ(judged("ema_memory", 0.33, 0.34).state, ClaimState::Confirmed);
  EXPECT_EQ(claimed_text(result.claim), "58 to 60 % less memory of weights, EMA and copy");
}

TEST_F(ModelClaims, SecondsPerParameter) {
  const double saved = 0.1 * 15e-3 / parameters(); // a unit takes 15 ms
  const ClaimResult result = judged("seconds_per_parameter", 2 * saved, 3 * saved);
  EXPECT_NEAR(result.gain.value(), saved, 0.05 * saved);
  EXPECT_EQ(result.state, ClaimState::Shortfall);
  EXPECT_EQ(judged("seconds_per_parameter", 0.5 * saved, saved).state, ClaimState::Confirmed);
  ClaimRow claim = result.claim;
  claim.lo = 2e-9;
  claim.hi = 3e-9;
  EXPECT_EQ(claimed_text(claim), "2 to 3 ns less time of the unit, per parameter");
}

TEST_F(ModelClaims, ALossThatStays) {
  const double blind = std::log(256.0); // the tiny vocabulary
  const ClaimResult trained = judged("untrained_loss", 0.98, kNoEnd);
  EXPECT_LT(trained.gain.value(), 0.6);
  EXPECT_EQ(trained.state, ClaimState::Refuted);
  for (VisitRow& visit : data_.visits)
    if (visit.loss) visit.loss = *visit.loss * 1e-3 + blind;
  const ClaimResult stays = judged("untrained_loss", 0.98, kNoEnd);
  EXPECT_NEAR(stays.gain.value(), 1, 0.01);
  EXPECT_EQ(stays.state, ClaimState::Confirmed);
  EXPECT_EQ(claimed_text(stays.claim), "98 % or more of an untrained model's loss");
}

// Of a design's later steps the baseline is another than the cell's.
TEST_F(ModelClaims, ConditionsAreThoseOfTheBaseline) {
  ClaimRow claim = synthetic::step_time_claim(0.05, 0.15);
  claim.requires_json = R"({"attention":"varlen"})";
  data_.claims = {claim};
  for (VariantRow& variant : data_.variants)
    if (variant.role == Role::Reference) variant.config_json = R"({"attention":"varlen"})";
  EXPECT_NE(judge_results(data_).claims.at(0).state, ClaimState::ConditionsNotMet);
  for (VariantRow& variant : data_.variants) variant.config_json = R"({"attention":"packed"})";
  const ClaimResult other = judge_results(data_).claims.at(0);
  EXPECT_EQ(other.state, ClaimState::ConditionsNotMet);
  EXPECT_EQ(other.reason.text, "attention is packed, the claim needs varlen");
}

TEST_F(ModelClaims, ASettingIsNeverJudged) {
  for (const double effect : {0.9, 1.0, 1.1}) {
    for (VisitRow& visit : data_.visits)
      if (visit.variant == 2)
        visit.wall_ns = std::llround(effect * static_cast<double>(visit.wall_ns));
    const ClaimResult result = judged(kSetting, 0, kNoEnd);
    EXPECT_EQ(result.state, ClaimState::NotTested);
    EXPECT_FALSE(result.gain);
  }
}

TEST(ClaimConditions, NamesWhatIsUnmet) {
  ClaimRow claim;
  CellRow cell;
  cell.config_json = R"({"device":"cpu","precision":"fp32","seq_len":512})";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""), "");
  claim.requires_json = R"({"device":"cuda","precision":["bf16","fp16"]})";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""),
            "device is cpu, the claim needs cuda; precision is fp32, the claim needs "
            "bf16 or fp16");
  claim.requires_json = R"({"precision":["fp32"],"seq_len":{"min":512,"max":1024},"device":"cpu"})";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""), "");
  claim.requires_json = R"({"seq_len":{"min":1024}})";
  EXPECT_NE(unmet_conditions(claim, cell.config_json, ""), "");
  claim.requires_json = R"({"gpu":"H100"})";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""),
            "the claim needs a H100 board, this is no GPU");
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, "NVIDIA H100 80GB"), "");
  CellRow not_run = cell;
  not_run.config_json = R"({"device":"cuda"})";
  EXPECT_EQ(unmet_conditions(claim, not_run.config_json, ""), "") << "its board is not known yet";
  EXPECT_EQ(unmet_conditions(claim, not_run.config_json, "NVIDIA H200"),
            "the claim needs a H100 board, this is NVIDIA H200");
  claim.requires_json = R"({"fp8":true})";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""),
            "the claim needs fp8 true, the cell has no such key");
  claim.requires_json = "{broken";
  EXPECT_EQ(unmet_conditions(claim, cell.config_json, ""), "the claim's conditions cannot be read");
}

// Cell "keys": fast takes 10 % less than slow with bf16 for fp32.
LedgerData keys_ledger(const std::string& fast_config) {
  synthetic::SyntheticPlan plan;
  plan.noise = 0.02;
  plan.cells = {synthetic::two_level_cell(std::log(0.9))};
  ClaimRow claim = synthetic::step_time_claim(0.08, 0.12);
  claim.from = R"({"precision":"fp32"})";
  claim.to = R"({"precision":"bf16"})";
  plan.claims = {claim};
  LedgerData data = synthetic::synthetic_ledger(plan);
  synthetic::compare_keys(data, fast_config);
  return data;
}

ClaimResult only_claim(const LedgerData& data) {
  const Report report = judge_results(data);
  EXPECT_EQ(report.claims.size(), 1u);
  return report.claims.at(0);
}

TEST(KeyClaims, AreJudgedLikeClaimsAboutLevels) {
  const std::string bf16 = R"({"device":"cpu","precision":"bf16","eval_interval":100})";
  const ClaimResult result = only_claim(keys_ledger(bf16));
  EXPECT_EQ(result.cell, 0u);
  EXPECT_EQ(result.comparison, 0u);
  EXPECT_EQ(result.state, ClaimState::Confirmed);
  ASSERT_TRUE(result.gain);
  EXPECT_NEAR(*result.gain, 0.1, 0.01);
  LedgerData levels = keys_ledger(bf16);
  levels.optimizations[0].scope = kScopeOfTable;
  EXPECT_EQ(only_claim(levels).state, ClaimState::NotTested) << "a row's claims name its levels";
}

TEST(KeyClaims, NeedExactlyTheirKeysAndValues) {
  const ClaimResult more =
      only_claim(keys_ledger(R"({"device":"cpu","precision":"bf16","eval_interval":50})"));
  EXPECT_EQ(more.state, ClaimState::NotTested);
  EXPECT_EQ(more.reason.code, ReasonCode::NoCell);
  EXPECT_NE(more.reason.text.find("eval_interval differs too"), std::string::npos);
  const ClaimResult other =
      only_claim(keys_ledger(R"({"device":"cpu","precision":"fp16","eval_interval":100})"));
  EXPECT_EQ(other.state, ClaimState::NotTested);
  EXPECT_NE(other.reason.text.find("precision is fp16 in 'fast', the claim has bf16"),
            std::string::npos)
      << other.reason.text;
}

} // namespace claims_test
} // namespace assay
