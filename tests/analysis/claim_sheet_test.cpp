#include "experiments/report/claims/claim_sheet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace claim_sheet_test {

using nlohmann::json;
using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::HasSubstr;
using testing::Not;

// "fast" takes 10 % less; the claim says 8 to 12 %.
SheetSource source(const std::string& directory, double theta, std::vector<ClaimRow> claims) {
  SyntheticPlan plan;
  plan.noise = 0.02;
  plan.cells = {two_level_cell(theta)};
  plan.claims = std::move(claims);
  return {directory, judge_results(synthetic_ledger(plan))};
}

ClaimRow other_claim() {
  ClaimRow claim = step_time_claim(0.5, 0.6);
  claim.id = "another";
  claim.optimization = "elsewhere";
  claim.source_errors = {"two figures contradict"};
  return claim;
}

TEST(ClaimSheet, WithoutResultsEveryClaimIsUntestedWithItsReason) {
  ClaimRow unmet = other_claim();
  unmet.unmet = "not in this build";
  const auto sheet = claim_sheet({step_time_claim(0.08, 0.12), unmet}, {});
  ASSERT_EQ(sheet.size(), 2u);
  EXPECT_EQ(sheet[0].untested, "no results were named");
  EXPECT_EQ(sheet[1].untested, "not in this build");
  EXPECT_THAT(render_claims_table(sheet, {}), test::names("2 claims:", " 2 NOT_TESTED\n"));
}

TEST(ClaimSheet, ClaimsWithResultsOfAnyDirectoryComeFirst) {
  const ClaimRow claim = step_time_claim(0.08, 0.12);
  const auto sheet = claim_sheet({other_claim(), claim},
                                 {source("one", std::log(0.9), {claim}),
                                  source("two", std::log(1.1), {claim, other_claim()})});
  ASSERT_EQ(sheet.size(), 2u);
  ASSERT_EQ(sheet[0].results.size(), 2u);
  EXPECT_EQ(sheet[0].results[0].directory, "one");
  EXPECT_EQ(sheet[0].results[0].result.state, ClaimState::Confirmed);
  EXPECT_EQ(sheet[0].results[1].directory, "two");
  EXPECT_EQ(sheet[0].results[1].result.state, ClaimState::Opposite);
  EXPECT_EQ(sheet[0].untested, "");
  EXPECT_TRUE(sheet[1].results.empty());
  EXPECT_EQ(sheet[1].untested, "no cell of these results compares the two levels");
  const std::string text = render_claims_table(sheet, {.width = 100});
  EXPECT_THAT(
      text,
      test::names("2 claims:", " 1 CONFIRMED", " 1 OPPOSITE", " 1 NOT_TESTED", "of its states"));
  EXPECT_THAT(text, HasSubstr("  CONFIRMED\n    measured 10."));
  EXPECT_THAT(text, HasSubstr("; one, cell"));
  EXPECT_THAT(text, HasSubstr("- two figures"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

// A result keeps the range that it was judged by, whatever the claims file says by now.
TEST(ClaimSheet, AResultOfAnotherVersionOfItsClaimSaysSo) {
  const ClaimRow then = step_time_claim(0.08, 0.12);
  ClaimRow now = then;
  now.lo = 0.5;
  now.hi = 0.6;
  now.stages = "optimizer";
  const auto sheet = claim_sheet(
      {now}, {source("one", std::log(0.9), {then}), source("two", std::log(0.9), {now})});
  ASSERT_EQ(sheet.at(0).results.size(), 2u);
  EXPECT_EQ(sheet[0].results[0].changed, (std::vector<std::string>{"gain", "stages"}));
  EXPECT_TRUE(sheet[0].results[1].changed.empty());
  const std::string text = render_claims_table(sheet, {.width = 200});
  EXPECT_THAT(text, test::names("; 1 result", "another version of"));
  EXPECT_THAT(text, HasSubstr("  CONFIRMED\n    measured 10."));
  EXPECT_THAT(text, test::names("8 to 12", "slow → fast", "(other: gain, stages)\n"));
  const json out = json::parse(render_claims_json(sheet));
  EXPECT_EQ(out["claims"][0]["results"][0]["claim_changed"], json::array({"gain", "stages"}));
  EXPECT_EQ(out["claims"][0]["results"][0]["claimed"], json::array({0.08, 0.12}));
  EXPECT_EQ(out["claims"][0]["results"][1]["claim_changed"], json::array());
}

// A claim that now compares something else was not tested by the old run, whatever it said.
TEST(ClaimSheet, AStateOfAnotherComparisonIsSuperseded) {
  const ClaimRow then = step_time_claim(0.5, 0.6);
  ClaimRow now = then;
  now.from = "padded";
  now.unmet = "no level pads";
  const auto sheet = claim_sheet({now}, {source("one", std::log(0.9), {then})});
  ASSERT_EQ(sheet.at(0).results.size(), 1u);
  EXPECT_EQ(sheet[0].results[0].result.state, ClaimState::Shortfall) << "the ledger keeps its own";
  EXPECT_EQ(sheet[0].untested, "no level pads");
  const json out = json::parse(render_claims_json(sheet));
  EXPECT_EQ(out["claims"][0]["results"][0]["superseded"], true);
  const std::string text = render_claims_table(sheet, {.width = 100});
  EXPECT_THAT(text, test::names("1 claim:", " 1 NOT_TESTED;", " 1 result"));
  EXPECT_THAT(text, HasSubstr("superseded, was SHORTFALL\n"));
}

// The cell met the conditions of its time and does not meet today's.
TEST(ClaimSheet, AStateUnderConditionsThatNoLongerHoldIsSuperseded) {
  const ClaimRow then = step_time_claim(0.08, 0.12);
  ClaimRow now = then;
  now.requires_json = R"({"device":"cpu"})";
  EXPECT_FALSE(
      claim_sheet({now}, {source("one", std::log(0.9), {then})}).at(0).results.at(0).superseded);
  now.requires_json = R"({"device":"cuda"})";
  EXPECT_TRUE(
      claim_sheet({now}, {source("one", std::log(0.9), {then})}).at(0).results.at(0).superseded);
}

TEST(ClaimSheet, AClaimThatOnlyTheResultsKnowIsListed) {
  const ClaimRow claim = step_time_claim(0.08, 0.12);
  const auto sheet = claim_sheet({other_claim()}, {source("one", std::log(0.9), {claim})});
  ASSERT_EQ(sheet.size(), 2u);
  EXPECT_EQ(sheet[0].claim.id, claim.id);
  EXPECT_EQ(sheet[0].results.size(), 1u);
}

// Data that is older than the claim does not judge it; the sheet says so instead of denying the
// data.
TEST(ClaimSheet, AClaimNewerThanTheResultsIsUntested) {
  ClaimRow claim = step_time_claim(0.08, 0.12);
  claim.requires_json = R"({"precision":["bf16","fp8"],"preset":"base"})";
  const auto sheet = claim_sheet({claim, other_claim()}, {source("one", std::log(0.9), {})});
  ASSERT_EQ(sheet.size(), 2u);
  EXPECT_TRUE(sheet[0].results.empty());
  EXPECT_THAT(sheet[0].untested, test::names("one, cell ema_swap", "but was"));
  EXPECT_THAT(sheet[1].untested, HasSubstr("no cell "));
  EXPECT_THAT(render_claims_table(sheet, {.width = 100}),
              test::names("run needs:", "bf16 or fp8,", "preset base"));
}

// In a plan it belongs to the cell that compares its keys, in a claims file to no optimization.
TEST(ClaimSheet, AClaimAboutKeysIsTheSameInAPlan) {
  ClaimRow now = step_time_claim(0.08, 0.12);
  now.optimization = "";
  now.from = R"({"precision":"fp32"})";
  now.to = R"({"precision":"bf16"})";
  ClaimRow planned = now;
  planned.optimization = "ema_swap";
  SyntheticPlan plan;
  plan.noise = 0.02;
  plan.cells = {two_level_cell(std::log(0.9))};
  plan.claims = {planned};
  LedgerData data = synthetic_ledger(plan);
  const auto sheet = claim_sheet({now}, {{"other", judge_results(data)}});
  EXPECT_THAT(sheet.at(0).untested, test::names("other: ", "these sets of keys"));
  synthetic::compare_keys(data, R"({"device":"cpu","precision":"bf16","eval_interval":100})");
  const auto tested = claim_sheet({now}, {{"one", judge_results(data)}});
  ASSERT_EQ(tested.at(0).results.size(), 1u);
  EXPECT_FALSE(tested[0].results[0].superseded);
  EXPECT_TRUE(tested[0].results[0].changed.empty());
  EXPECT_THAT(render_claims_table(tested, {.unicode = false}),
              test::names("precision = fp32 -> precision = bf16\n", "CONFIRMED\n"));
}

TEST(ClaimSheet, Json) {
  const ClaimRow claim = step_time_claim(0.08, 0.12);
  const json out = json::parse(render_claims_json(
      claim_sheet({claim, other_claim()}, {source("one", std::log(0.9), {claim})})));
  EXPECT_EQ(out["schema_version"], kReportSchema);
  const json& row = out["claims"][0];
  EXPECT_EQ(row["id"], claim.id);
  EXPECT_EQ(row["source"], claim.source);
  EXPECT_EQ(row["results"][0]["state"], "CONFIRMED");
  EXPECT_EQ(row["results"][0]["directory"], "one");
  EXPECT_NEAR(row["results"][0]["gain"].get<double>(), 0.1, 0.02);
  EXPECT_FALSE(row.contains("state")) << "a state belongs to a result";
  EXPECT_EQ(out["claims"][1]["source_errors"], json::array({"two figures contradict"}));
  EXPECT_EQ(out["claims"][1]["results"], json::array());
}

TEST(ClaimSheet, WhatIsMeasuredIsToldInTheClaimsDirection) {
  ClaimResult result;
  result.claim.metric = "peak_memory";
  result.gain = 0.0681;
  EXPECT_EQ(measured_text(result), "measured 6.81 % less");
  result.gain = -0.0066;
  result.gain_judged = Interval{-0.01, 0.002};
  EXPECT_EQ(measured_text(result), "measured 0.66 % more [-0.20, +1.00] %");
  result.gain = 0;
  result.gain_judged.reset();
  EXPECT_EQ(measured_text(result), "measured 0 % less");
  result.claim.metric = "throughput";
  result.gain = -0.0066;
  EXPECT_EQ(measured_text(result), "measured -0.66 %");
  result.gain = 118.6;
  result.gain_judged = Interval{109, 129};
  EXPECT_EQ(measured_text(result), "measured x120 [110, 130]");
}

TEST(ClaimSheet, AClaimWithoutAFigureIsShownAsSuch) {
  ClaimRow claim = step_time_claim(0, std::numeric_limits<double>::infinity());
  EXPECT_EQ(claimed_text(claim), "less step time (no figure given)");
  claim.metric = "throughput";
  EXPECT_EQ(claimed_text(claim), "more throughput (no figure given)");
  claim.lo = 0.5;
  EXPECT_EQ(claimed_text(claim), "+50 % or more throughput");
  claim.lo = 1;
  claim.hi = 9;
  EXPECT_EQ(claimed_text(claim), "x2 to x10 throughput");
  claim.lo = 0;
  claim.hi = std::numeric_limits<double>::infinity();
  const Report report = source("one", std::log(0.9), {claim}).report;
  EXPECT_EQ(report.claims.at(0).state, ClaimState::Confirmed);
  EXPECT_FALSE(report.claims.at(0).exceeds) << "nothing lies above no upper end";
  const std::string page = render_html(report); // no mark is drawn at infinity
  for (const char* broken : {"=\"nan", "=\"-nan", "=\"inf", "=\"-inf"})
    EXPECT_EQ(page.find(broken), std::string::npos) << broken;
  EXPECT_EQ(json::parse(render_json(report))["claims"][0]["claimed"], json::array({0.0, nullptr}));
}

TEST(Warnings, EveryReportShowsThem) {
  Report report = source("one", std::log(0.9), {}).report;
  EXPECT_EQ(json::parse(render_json(report))["shape_warnings"], json::array());
  EXPECT_THAT(render_html(report), Not(HasSubstr("Shape warnings")));
  report.shape_warnings = {"cell x: 117 is not a multiple of 8 <b>"};
  EXPECT_THAT(render_table(report, {}), test::names("Shape warnings\n", "cell x: 117"));
  EXPECT_THAT(render_markdown(report), test::names("## Shape warnings\n", "cell x: 117"));
  EXPECT_THAT(render_html(report),
              test::names("<h2>Shape warnings</h2>\n", "<li>cell x: 117", "8 &lt;b"));
  EXPECT_EQ(json::parse(render_json(report))["shape_warnings"][0], report.shape_warnings[0]);
  report.source_errors = {"two figures contradict"}; // about other people's documents: on request
  EXPECT_THAT(render_table(report, {}), Not(HasSubstr("two figures")));
  EXPECT_THAT(render_table(report, {}, {.cell = "", .verbose = true}), HasSubstr("two figures"));
  EXPECT_THAT(render_markdown(report), Not(HasSubstr("two figures")));
  EXPECT_THAT(render_html(report), HasSubstr("<li>two figures contradict</li>"));
  EXPECT_EQ(json::parse(render_json(report))["source_errors"][0], report.source_errors[0]);
}

} // namespace claim_sheet_test
} // namespace assay
