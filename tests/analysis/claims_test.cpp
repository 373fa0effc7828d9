#include "experiments/analysis/claims.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace assay {
namespace {

constexpr double kNoEnd = std::numeric_limits<double>::infinity();

struct Case {
  double lo, hi, l, u;
  ClaimState state;
  bool exceeds;
};

// Claimed 10-15 %, smallest effect of interest 1 %, unless the row says otherwise.
TEST(ClaimRule, EveryBranchAndItsBorders) {
  constexpr double s = 0.01;
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
      {.005, .02, -.02, .004, ClaimState::Refuted, false}, // a claim below s: its own edge counts
      {-.02, .02, -.015, -.01, ClaimState::Confirmed, false}, // a bounded cost is kept
      {-.02, .02, -.10, -.05, ClaimState::Refuted, false},
      // Without a figure: at least the smallest effect of interest.
      {0, kNoEnd, .012, .50, ClaimState::Confirmed, false},
      {0, kNoEnd, .005, .50, ClaimState::Undecided, false},
      {0, kNoEnd, -.005, .009, ClaimState::Refuted, false},
      {0, kNoEnd, -.03, -.02, ClaimState::Opposite, false},
      {.10, kNoEnd, .20, .90, ClaimState::Confirmed, false},
  };
  for (const Case& c : cases) {
    const ClaimDecision decision = decide_claim({c.lo, c.hi}, {c.l, c.u}, s);
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

TEST(ClaimConditions, NamesWhatIsUnmet) {
  ClaimRow claim;
  const auto cell = nlohmann::json::parse(R"({"device":"cpu","precision":"fp32","seq_len":512})");
  EXPECT_EQ(unmet_conditions(claim, cell, ""), "");
  claim.requires_json = R"({"device":"cuda","precision":["bf16","fp16"]})";
  EXPECT_EQ(unmet_conditions(claim, cell, ""),
            "device is cpu, the claim needs cuda; precision is fp32, the claim needs "
            "bf16 or fp16");
  claim.requires_json = R"({"precision":["fp32"],"seq_len":{"min":512,"max":1024},"device":"cpu"})";
  EXPECT_EQ(unmet_conditions(claim, cell, ""), "");
  claim.requires_json = R"({"seq_len":{"min":1024}})";
  EXPECT_NE(unmet_conditions(claim, cell, ""), "");
  claim.requires_json = R"({"gpu":"H100"})";
  EXPECT_EQ(unmet_conditions(claim, cell, ""), "the claim needs a H100 board, this is no GPU");
  EXPECT_EQ(unmet_conditions(claim, cell, "NVIDIA H100 80GB"), "");
  const auto not_run = nlohmann::json::parse(R"({"device":"cuda"})");
  EXPECT_EQ(unmet_conditions(claim, not_run, ""), "") << "its board is not known yet";
  EXPECT_EQ(unmet_conditions(claim, not_run, "NVIDIA H200"),
            "the claim needs a H100 board, this is NVIDIA H200");
  claim.requires_json = R"({"fp8":true})";
  EXPECT_EQ(unmet_conditions(claim, cell, ""),
            "the claim needs fp8 true, the cell has no such key");
  claim.requires_json = "{broken";
  EXPECT_EQ(unmet_conditions(claim, cell, ""), "the claim's conditions cannot be read");
}

} // namespace
} // namespace assay
