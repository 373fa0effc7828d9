// The verdict table, from ledgers with known effects.
#include "ui/model/results/verdict_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "tests/ui/sample_ledger.h"
#include "ui/model/results/model_json.h"

namespace assay {
namespace verdict_model_test {

const Section& section(const VerdictRowModel& row, const std::string& title) {
  for (const Section& candidate : row.details)
    if (candidate.title == title) return candidate;
  throw std::runtime_error("no section " + title);
}

std::string all_text(const Section& section) {
  std::string text;
  for (const SectionRow& row : section.rows) {
    for (const std::string& part : row.texts) text += part + "|";
    text += "\n";
  }
  for (const std::string& note : section.notes) text += note + "\n";
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(VerdictModel, OneRowAComparisonWithTheWordsOfTheReport) {
  const LedgerData data = finished();
  const VerdictModel model = verdict_model(data);
  const Report report = judge_results(data);
  ASSERT_EQ(model.rows.size(), 2U);
  EXPECT_FALSE(model.notice);
  EXPECT_EQ(model.name, "small plan");
  for (std::size_t i = 0; i < 2; ++i) {
    const Comparison& comparison = report.cells[i].comparisons[0];
    const VerdictRowModel& row = model.rows[i];
    EXPECT_EQ(row.cell, report.cells[i].cell.name);
    EXPECT_EQ(row.comparison, comparison_text(comparison));
    EXPECT_EQ(row.badge, verdict_word(comparison.verdict));
    EXPECT_EQ(row.headline, headline(comparison.verdict).text);
    EXPECT_EQ(row.tone, headline(comparison.verdict).tone);
    EXPECT_EQ(row.mde, mde_text(comparison.effect));
    EXPECT_EQ(row.memory, "-20.0 %");
    EXPECT_EQ(row.launches.size(), 5U);
  }
  EXPECT_EQ(model.rows[0].badge, "FASTER");
  EXPECT_EQ(model.rows[1].badge, "NO_EFFECT");
  EXPECT_EQ(report.judgements, 2);
  EXPECT_EQ(model.interval_level, "97.5 %"); // alpha = 0.05 is shared by two verdicts
  EXPECT_EQ(to_json(model)["interval_level"], "97.5 %");
}

TEST(VerdictModel, TheBarIsTheChangeOfTimeInPercent) {
  const VerdictModel model = verdict_model(finished());
  const IntervalPicture& bar = model.rows[0].interval.value();
  const double planted = 100 * std::expm1(-0.12);
  EXPECT_NEAR(bar.point, planted, 0.6);
  EXPECT_LT(bar.lo, planted);
  EXPECT_GT(bar.hi, planted);
  EXPECT_LT(bar.hi - bar.lo, 2);
  // +10 to +15 % throughput takes 1/1.15 to 1/1.10 of the time
  EXPECT_NEAR(bar.claim_lo.value(), -13.0435, 1e-3);
  EXPECT_NEAR(bar.claim_hi.value(), -9.0909, 1e-3);
  EXPECT_LT(bar.band_lo.value(), bar.band_hi.value());
  EXPECT_LT(std::abs(bar.band_lo.value() + bar.band_hi.value()), 1); // about zero
  EXPECT_EQ(bar.sesoi, 1);
  EXPECT_FALSE(model.rows[1].interval->claim_lo);
  EXPECT_GE(model.axis, std::abs(bar.lo));
}

TEST(VerdictModel, TheBarShowsOnlyTheRangeOfAClaimThatApplies) {
  LedgerData data = finished();
  ClaimRow claim = data.claims[0];
  claim.id = "elsewhere";
  claim.lo = 0.5;
  claim.hi = 0.6;
  claim.requires_json = R"({"device": "cuda"})";
  data.claims.insert(data.claims.begin(), claim);
  EXPECT_NEAR(verdict_model(data).rows[0].interval->claim_lo.value(), -13.0435, 1e-3);
  data.claims.pop_back(); // only the claim that cannot be judged here
  EXPECT_FALSE(verdict_model(data).rows[0].interval->claim_lo);
}

TEST(VerdictModel, TheAxisShowsEveryIntervalAndDistantClaimsOnlyInPart) {
  std::vector<VerdictRowModel> rows(1);
  EXPECT_EQ(axis_of(rows), 1);
  rows[0].interval = IntervalPicture{-2, -3, 1, -50, -40, {}, {}, 1};
  EXPECT_DOUBLE_EQ(axis_of(rows), 1.05 * 9);
  rows[0].interval->claim_lo = -5;
  rows[0].interval->claim_hi = -4;
  EXPECT_DOUBLE_EQ(axis_of(rows), 1.05 * 5);
  rows[0].interval->hi = 20;
  EXPECT_DOUBLE_EQ(axis_of(rows), 1.05 * 20);
}

TEST(VerdictModel, DetailsHoldClaimGatesAndLaunches) {
  const VerdictModel model = verdict_model(finished());
  const std::string claims = all_text(section(model.rows[0], "Claims"));
  EXPECT_TRUE(has(claims, "claimed +10 to +15 % throughput; measured +")) << claims;
  EXPECT_TRUE(has(claims, "\"10-15 % more tokens a second\" (seed 3)")) << claims;
  EXPECT_TRUE(has(claims, "conditions: documents of very different length")) << claims;
  for (const Section& other : model.rows[1].details) EXPECT_NE(other.id, "claims");
  const std::string gates = all_text(section(model.rows[0], "Parity gates"));
  EXPECT_TRUE(has(gates, "bitwise/weights|varlen|passed|0|0|")) << gates;
  const std::string figures = all_text(section(model.rows[0], "Measurement"));
  EXPECT_TRUE(has(figures, "varlen/mask_dense x 1 in mask_dense")) << figures;
  EXPECT_EQ(section(model.rows[0], "Launches").rows.size(), 1U + 3 + 5);
  EXPECT_TRUE(
      has(all_text(section(model.rows[0], "Launches")), "timed 4|complete|24 of 24 + 3 warm-up|"));
  EXPECT_TRUE(has(all_text(section(model.rows[0], "Why")), "per train step"));
}

TEST(VerdictModel, ClaimsThatNoCellTestsStandWithTheirOptimization) {
  LedgerData data = finished();
  ClaimRow claim = data.claims[0];
  claim.id = "other";
  claim.to = "fp8";
  claim.text = "only with another level";
  data.claims.push_back(claim);
  const VerdictModel model = verdict_model(data);
  EXPECT_TRUE(has(all_text(section(model.rows[0], "Claims")), "NOT_TESTED|other: claimed"));
  EXPECT_TRUE(has(all_text(section(model.rows[0], "Claims")), "only with another level"));
  for (const Section& other : model.rows[1].details)
    EXPECT_FALSE(has(all_text(other), "only with another level")) << other.id;
}

TEST(VerdictModel, FailedLaunchesAreBadAndRaiseAnAlarm) {
  LedgerData data = finished();
  for (LaunchRow& launch : data.launches)
    if (launch.cell == 1 && launch.kind == LaunchKind::Timed && launch.index == 4) {
      launch.state = LaunchState::Failed;
      launch.reason = "the worker was killed";
    }
  const VerdictModel model = verdict_model(data);
  const std::vector<SectionRow>& rows = section(model.rows[0], "Launches").rows;
  const auto bad = std::find_if(
      rows.begin(), rows.end(), [](const SectionRow& row) { return row.tone == Tone::Bad; });
  ASSERT_NE(bad, rows.end());
  EXPECT_TRUE(has(bad->texts.back(), "the worker was killed")) << bad->texts.back();
  ASSERT_EQ(model.alarms.size(), 1U);
  EXPECT_TRUE(has(model.alarms[0], "the worker was killed"));
  EXPECT_EQ(model.rows[0].launches.size(), 4U);
}

TEST(VerdictModel, AFailedGateIsBadAndNamed) {
  SamplePlan plan;
  plan.parity_passes = false;
  const VerdictModel model = verdict_model(finished(plan));
  EXPECT_EQ(model.rows[0].badge, "PARITY_FAILED");
  const Section& gates = section(model.rows[0], "Parity gates");
  EXPECT_EQ(gates.rows[0].texts.at(2), "FAILED");
  EXPECT_EQ(gates.rows[0].tone, Tone::Bad);
  EXPECT_TRUE(has(gates.rows[0].texts.at(5), "largest difference of a weight"));
}

TEST(VerdictModel, BeforeTheFirstLaunchItSaysWhatToRun) {
  const VerdictModel model = verdict_model(planned_only());
  ASSERT_TRUE(model.notice);
  EXPECT_FALSE(model.failed);
  EXPECT_EQ(model.notice->title, "No launch has run yet");
  EXPECT_EQ(model.notice->action, "assay run synthetic.toml");
}

TEST(VerdictModel, UnfinishedPlansHaveRowsWithoutBars) {
  SamplePlan plan;
  plan.launches = 1;
  const VerdictModel model = verdict_model(finished(plan));
  EXPECT_FALSE(model.notice);
  EXPECT_EQ(model.rows[0].badge, "INCOMPLETE");
  EXPECT_FALSE(model.rows[0].interval); // one launch has no interval
  EXPECT_EQ(model.rows[0].launches.size(), 1U);
}

TEST(VerdictModel, HostileTextLosesItsControlCharacters) {
  LedgerData data = finished();
  data.spec.name = "na\x1b[31mme";
  data.claims[0].text = "\xff bad \n bytes";
  const VerdictModel model = verdict_model(data);
  EXPECT_FALSE(has(model.name, "\x1b"));
  const std::string claims = to_json(section(model.rows[0], "Claims")).dump();
  EXPECT_FALSE(has(claims, "\xff"));
  EXPECT_TRUE(has(claims, "bad"));
}

TEST(ModelJson, HoldsTheScreen) {
  const VerdictModel model = verdict_model(finished());
  const auto json = to_json(model);
  EXPECT_EQ(json["rows"].size(), 2U);
  EXPECT_EQ(json["rows"][0]["badge"], "FASTER");
  EXPECT_NEAR(json["rows"][0]["interval"]["claim_percent"][0].get<double>(), -13.0435, 1e-3);
  EXPECT_TRUE(json["rows"][1]["interval"]["claim_percent"].is_null());
  EXPECT_TRUE(json["notice"].is_null());
}

} // namespace verdict_model_test
} // namespace assay
