#include "experiments/evidence/loss/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/render.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace loss_cases_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

SyntheticCell loss_cell(double shift, double sd, int seeds = 4) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.equivalence = "statistical";
  cell.levels[1].loss_shift = shift;
  cell.levels[1].loss_sd = sd;
  cell.loss_seeds = seeds;
  return cell;
}

LedgerData ledger_of(SyntheticCell cell) {
  SyntheticPlan plan;
  plan.seed = 5;
  plan.noise = 0.02;
  plan.cells = {std::move(cell)};
  return synthetic_ledger(plan);
}

Comparison judged(const LedgerData& data) {
  return judge_results(data).cells.at(0).comparisons.at(0);
}

Quality quality(const SyntheticCell& cell) {
  return judged(ledger_of(cell)).verdict.quality;
}

ClaimRow loss_claim(double lo, double hi) {
  ClaimRow claim = synthetic::step_time_claim(lo, hi);
  claim.metric = "final_loss";
  return claim;
}

ClaimResult claimed(const SyntheticCell& cell, double lo, double hi) {
  LedgerData data = ledger_of(cell);
  data.claims = {loss_claim(lo, hi)};
  return judge_results(data).claims.at(0);
}

TEST(Loss, TheLastTwentiethCountsAndNeverLessThanThreeVisits) {
  EXPECT_EQ(final_visits(1), 1u);
  EXPECT_EQ(final_visits(3), 3u);
  EXPECT_EQ(final_visits(50), 3u);
  EXPECT_EQ(final_visits(60), 3u);
  EXPECT_EQ(final_visits(61), 4u);
  EXPECT_EQ(final_visits(100), 5u);
  EXPECT_EQ(final_visits(1000), 50u);
}

TEST(Loss, TruthOfEachKind) {
  EXPECT_EQ(quality(loss_cell(0.001, 0.002)), Quality::Equivalent);
  EXPECT_EQ(quality(loss_cell(0.08, 0.01)), Quality::Harmed);
  EXPECT_EQ(quality(loss_cell(0.02, 0.02)), Quality::Unknown) << "at the margin";
  EXPECT_EQ(quality(loss_cell(-0.08, 0.01)), Quality::Unknown) << "better is not equivalent";
  EXPECT_EQ(quality(loss_cell(0.001, 0.002, 3)), Quality::Unknown) << "too few seeds";
  EXPECT_EQ(quality(loss_cell(0.001, 0.002, 0)), Quality::Unknown) << "no loss launches";
  SyntheticCell objective = loss_cell(-0.08, 0.01);
  objective.equivalence = "objective";
  EXPECT_EQ(quality(objective), Quality::Equivalent) << "not worse is enough";
}

TEST(Loss, WhatItDecidesIsInTheReportWhereTheTimesDecideNothing) {
  LedgerData data = ledger_of(loss_cell(0.001, 0.002));
  std::int64_t launches = 0;
  for (LaunchRow& launch : data.launches) // three are left: no FASTER
    if (launch.kind == LaunchKind::Timed && ++launches > 3) launch.state = LaunchState::Failed;
  const Comparison comparison = judged(data);
  EXPECT_EQ(comparison.verdict.speed, Speed::Inconclusive);
  EXPECT_EQ(comparison.verdict.quality, Quality::Equivalent);
  EXPECT_TRUE(shows_details(comparison));
  LedgerData unproven = ledger_of(loss_cell(0.02, 0.02));
  for (LaunchRow& launch : unproven.launches)
    launch.state =
        launch.kind == LaunchKind::Timed && launch.index > 3 ? LaunchState::Failed : launch.state;
  EXPECT_FALSE(shows_details(judged(unproven)));
}

TEST(Loss, AGreenVerdictNeedsTheTest) {
  const Verdict proved = judged(ledger_of(loss_cell(0.001, 0.002))).verdict;
  EXPECT_EQ(headline(proved).text, "faster");
  EXPECT_EQ(headline(proved).tone, Tone::Good);
  const Verdict few = judged(ledger_of(loss_cell(0.001, 0.002, 3))).verdict;
  EXPECT_EQ(headline(few).text, "faster, quality unproven");
  EXPECT_TRUE(has_reason(few, ReasonCode::LossTest));
  EXPECT_THAT(texts(few.reasons), Contains(test::names("3 of at", "least 4")));
  const Verdict harmed = judged(ledger_of(loss_cell(0.08, 0.01))).verdict;
  EXPECT_EQ(headline(harmed).text, "harms training");
}

// Each of a plan's loss tests can call an unharmed training harmed, or a harmed one equivalent.
TEST(Loss, TestsOfOnePlanShareAlpha) {
  SyntheticPlan plan;
  plan.seed = 5;
  plan.noise = 0.02;
  plan.cells = {loss_cell(0.001, 0.002), loss_cell(0.001, 0.002)};
  plan.cells[1].name = "another";
  const Report report = judge_results(synthetic_ledger(plan));
  EXPECT_EQ(report.loss_tests, 2);
  EXPECT_DOUBLE_EQ(report.loss_alpha, 0.025);
  for (const CellReport& cell : report.cells)
    EXPECT_DOUBLE_EQ(cell.comparisons.at(0).loss->result.test->level(), 0.95);
  EXPECT_DOUBLE_EQ(judge_results(ledger_of(loss_cell(0.001, 0.002))).loss_alpha, 0.05);
}

TEST(Loss, PairsAreOfOneSeed) {
  LedgerData data = ledger_of(loss_cell(0.001, 0.002));
  for (VisitRow& visit : data.visits) { // seeds far apart, as different data orders are
    const LaunchRow& launch = data.launches.at(static_cast<std::size_t>(visit.launch - 1));
    if (launch.kind == LaunchKind::Loss) *visit.loss += launch.index;
  }
  const Comparison comparison = judged(data);
  EXPECT_EQ(comparison.verdict.quality, Quality::Equivalent);
  for (const SeedLoss& seed : comparison.loss->result.seeds)
    EXPECT_LT(std::abs(seed.b - seed.a), 0.02);
}

TEST(Loss, GatesDecideBitwiseAndMathRowsUnlessTrainingIsHarmed) {
  SyntheticCell cell = loss_cell(0.02, 0.02); // proves nothing
  cell.equivalence = "math";
  cell.levels[1].gate = "math/gradients";
  EXPECT_EQ(quality(cell), Quality::Equivalent);
  const Comparison shown = judged(ledger_of(cell));
  EXPECT_THAT(loss_note(shown), test::names("nats/token (90 %", "4 seeds"));
  cell.levels[1].loss_shift = 0.1;
  cell.levels[1].loss_sd = 0.01;
  EXPECT_EQ(quality(cell), Quality::Harmed);
  cell.equivalence = "bitwise";
  cell.levels[1].gate = "bitwise/weights";
  EXPECT_EQ(quality(cell), Quality::Harmed);
}

TEST(Loss, JudgedVisitsComeAfterTheFirstAndTheWarmUp) {
  CellRow cell;
  cell.loss_rounds = 3;
  EXPECT_EQ(first_judged_visit(cell, {}), 1u) << "the first loss precedes every update";
  EXPECT_EQ(why_no_loss_counts(cell, {}), "");
  cell.loss_rounds = 1;
  EXPECT_EQ(first_judged_visit(cell, {}), 1u) << "none";
  EXPECT_THAT(why_no_loss_counts(cell, {}), test::names("0 of at", "least 2"));
  cell.loss_rounds = 50;
  EXPECT_EQ(first_judged_visit(cell, {"", 20, 10}), 47u);
  cell.loss_rounds = 4; // the visit from step 18 on is half warm-up
  EXPECT_EQ(first_judged_visit(cell, {"", 20, 9}), 3u);
  EXPECT_THAT(why_no_loss_counts(cell, {"two", 20, 9}),
              test::names("1 of at", "visits of 9 steps", "20 warm-up", "36 of 'two'"));
}

TEST(Loss, LossesThatShowNothingProveNothing) {
  SyntheticCell cell = loss_cell(0.001, 0.002);
  cell.config_json = R"({"device":"cpu","precision":"fp32","warmup_steps":500})";
  const Comparison warm = judged(ledger_of(cell));
  EXPECT_EQ(warm.verdict.quality, Quality::Unknown) << "all of it is warm-up";
  EXPECT_TRUE(has_reason(warm.verdict, ReasonCode::LossTest));
  EXPECT_THAT(texts(warm.verdict.reasons), Contains(test::names("warm-up steps", "of 500")));
  EXPECT_EQ(claimed(cell, 0, INFINITY).state, ClaimState::Undecided);
  LedgerData longer = ledger_of(loss_cell(0.001, 0.002));
  const auto candidate = std::ranges::find(longer.variants, Role::Level, &VariantRow::role);
  candidate->config_json = R"({"warmup_steps":500})";
  EXPECT_THAT(texts(judged(longer).verdict.reasons),
              Contains(test::names("500 warm-up steps", "of '" + candidate->name + "'")));
  cell = loss_cell(0, 0);
  const Comparison equal = judged(ledger_of(cell));
  EXPECT_EQ(equal.verdict.quality, Quality::Unknown);
  EXPECT_TRUE(has_reason(equal.verdict, ReasonCode::LossTest));
  EXPECT_THAT(texts(equal.verdict.reasons), Contains(HasSubstr("nothing differed")));
  cell.equivalence = "objective";
  EXPECT_EQ(quality(cell), Quality::Unknown);
}

// Gates see a few steps; what a whole training shows against bit equality counts more.
TEST(Loss, BitwiseEndsWhereTrainingParts) {
  SyntheticCell cell = loss_cell(0, 0);
  cell.equivalence = "bitwise";
  EXPECT_EQ(quality(cell), Quality::Bitwise) << "equal to the last bit";
  LedgerData skipped = ledger_of(cell);
  skipped.visits.back().skipped_steps = 1; // of the candidate, in the last loss launch
  const Comparison skips = judged(skipped);
  EXPECT_EQ(skips.verdict.quality, Quality::Equivalent) << "what the losses say";
  EXPECT_EQ(skips.evidence.quality_reason.code, ReasonCode::LossTest);
  cell.levels[1].loss_shift = 0.001;
  cell.levels[1].loss_sd = 0.002;
  EXPECT_EQ(quality(cell), Quality::Equivalent);
  cell.loss_seeds = 3;
  const Comparison few = judged(ledger_of(cell));
  EXPECT_EQ(few.verdict.quality, Quality::Unknown);
  EXPECT_TRUE(few.loss->parted);
  EXPECT_TRUE(has_reason(few.verdict, ReasonCode::LossTest));
  cell.equivalence = "math";
  EXPECT_EQ(quality(cell), Quality::Equivalent) << "that is all the class promises";
  skipped = ledger_of(cell);
  skipped.visits.back().skipped_steps = 1;
  EXPECT_EQ(judged(skipped).verdict.quality, Quality::Unknown) << "other updates are no rounding";
}

TEST(Loss, NanInBAloneHarmsAndTellsTheStep) {
  SyntheticCell cell = loss_cell(0.001, 0.002);
  cell.levels[1].nan_in_seed = 2;
  const Comparison comparison = judged(ledger_of(cell));
  EXPECT_EQ(comparison.verdict.quality, Quality::Harmed);
  EXPECT_EQ(comparison.loss->result.quality, Quality::Harmed);
  EXPECT_EQ(comparison.loss->result.seeds.size(), 2u) << "seed 1, and seed 2 with its NaN";
  EXPECT_THAT(comparison.evidence.quality_reason.text, HasSubstr("step 161"));
  cell.levels[0].nan_in_seed = 2; // the reference too
  EXPECT_EQ(quality(cell), Quality::Unknown);
}

TEST(Loss, WhatDoesNotCountIsLeftOut) {
  LedgerData data = ledger_of(loss_cell(0.001, 0.002, 5));
  const auto last = std::find_if(data.launches.rbegin(), data.launches.rend(), [](const auto& l) {
    return l.kind == LaunchKind::Loss;
  });
  const auto seeds = [&] { return judged(data).loss->result.seeds.size(); };
  EXPECT_EQ(seeds(), 5u);
  for (const LaunchState state :
       {LaunchState::Failed, LaunchState::Running, LaunchState::Partial}) {
    last->state = state;
    EXPECT_EQ(seeds(), 4u) << "half a training has no final loss";
  }
  EXPECT_THAT(judge_results(data).missing, Contains(test::names("1 of 5", "loss launches")));
  last->state = LaunchState::Complete;
  std::erase_if(data.visits, [&](const VisitRow& v) {
    return v.launch == last->id && v.variant == 2 && v.round == 49;
  });
  EXPECT_EQ(seeds(), 4u) << "nor has one that lacks a visit";
}

TEST(Loss, TimesAndLossesDoNotMix) {
  LedgerData with = ledger_of(loss_cell(0.001, 0.002));
  const LedgerData without = ledger_of(loss_cell(0.001, 0.002, 0));
  for (VisitRow& visit : with.visits)
    if (with.launches.at(static_cast<std::size_t>(visit.launch - 1)).kind == LaunchKind::Loss)
      visit.wall_ns *= visit.variant == 2 ? 5 : 1;
  EXPECT_DOUBLE_EQ(judged(with).effect->theta.value, judged(without).effect->theta.value);
  EXPECT_FALSE(judged(without).loss);
}

TEST(Loss, SkippedStepsAndDataThatWrappedAreTold) {
  LedgerData data = ledger_of(loss_cell(0.001, 0.002));
  const std::int64_t launch = data.launches.back().id;
  for (VisitRow& visit : data.visits)
    if (visit.launch == launch && visit.variant == 2 && visit.round < 3) visit.skipped_steps = 2;
  data.metrics.push_back({launch, 0, kDataEpochMetric, "epochs", 1, ""});
  const Comparison comparison = judged(data);
  EXPECT_EQ(comparison.loss->skipped_a, 0);
  EXPECT_EQ(comparison.loss->skipped_b, 6);
  const std::string text = loss_text(*comparison.loss);
  EXPECT_THAT(text, test::names("0 steps of", "6 of the"));
  EXPECT_THAT(comparison.loss->note, HasSubstr("1 time"));
  EXPECT_THAT(text, test::names("last 30", "500 steps"));
}

TEST(Loss, ClaimsAboutTheFinalLoss) {
  const double inf = INFINITY; // [0, inf]: less, no figure. Final losses are about 2.3.
  EXPECT_EQ(claimed(loss_cell(-0.3, 0.01), 0, inf).state, ClaimState::Confirmed);
  EXPECT_NEAR(*claimed(loss_cell(-0.3, 0.01), 0, inf).gain, 0.3 * 0.97 / 2.35, 0.02);
  EXPECT_EQ(claimed(loss_cell(0, 0.001), 0, inf).state, ClaimState::Refuted)
      << "equal losses keep no claim of a gain";
  EXPECT_EQ(claimed(loss_cell(0.3, 0.01), 0, inf).state, ClaimState::Opposite);
  EXPECT_EQ(claimed(loss_cell(-0.1, 0.01), 0.10, 0.2).state, ClaimState::Shortfall);
  const ClaimResult few = claimed(loss_cell(-0.3, 0.01, 3), 0, inf);
  EXPECT_EQ(few.state, ClaimState::Undecided);
  EXPECT_EQ(few.reason.code, ReasonCode::LossTest);
  EXPECT_THAT(few.reason.text, test::names("3 of at", "least 4"));
  const ClaimResult none = claimed(loss_cell(-0.3, 0.01, 0), 0, inf);
  EXPECT_EQ(none.state, ClaimState::NotTested);
  EXPECT_EQ(none.reason.code, ReasonCode::NoLossLaunches);
  EXPECT_EQ(claimed_text(none.claim), "less final loss (no figure given)");
}

TEST(Loss, CurvesAreDrawnWithWordsBesideThem) {
  SyntheticCell cell = loss_cell(0.001, 0.002);
  cell.levels[1].nan_in_seed = 3;
  const Report report = judge_results(ledger_of(cell));
  ASSERT_EQ(report.cells[0].loss_curves.size(), 4u + 3u);
  EXPECT_EQ(report.cells[0].loss_curves.back().loss.size(), 16u) << "as far as it came";
  const std::string svg = loss_svg(report.cells[0], PlotShape::Narrow);
  for (const char* part : {"aria-label=\"Training loss over 500 optimizer steps",
                           "slow: from ",
                           " over 4 seeds",
                           "optimizer steps</text>",
                           "training loss, nats per token",
                           "difference from slow",
                           "fast minus slow, mean of seeds",
                           "class=\"curve seed c0\"",
                           "class=\"curve c1\"",
                           "fast, seed 3"})
    EXPECT_THAT(svg, HasSubstr(part));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(loss_svg(CellReport(), PlotShape::Wide), "");
  EXPECT_THAT(render_html(report), HasSubstr("training loss</h3>"));
}

TEST(Loss, EveryReportShowsIt) {
  const Report report = judge_results(ledger_of(loss_cell(0.001, 0.002)));
  const std::string line = "nats/token (90 % over 4 seeds), margin 0.02";
  EXPECT_THAT(render_table(report, {.width = 200, .unicode = true, .color = false}),
              HasSubstr(line));
  EXPECT_THAT(render_markdown(report), HasSubstr("margin 0.02"));
  EXPECT_THAT(render_html(report), HasSubstr(line));
  const auto json = nlohmann::json::parse(render_json(report));
  const auto& loss = json["cells"][0]["comparisons"][0]["loss"];
  EXPECT_EQ(loss["quality"], "EQUIVALENT");
  EXPECT_EQ(loss["seeds"].size(), 4u);
  EXPECT_EQ(loss["rule"], "equivalence");
  EXPECT_EQ(loss["interval"].size(), 2u);
  EXPECT_LT(loss["p"], 0.05);
  EXPECT_EQ(loss["log_ratio"]["by_launch"].size(), 4u);
  EXPECT_EQ(json["cells"][0]["loss_curves"].size(), 8u);
  EXPECT_EQ(json["cells"][0]["loss_curves"][0]["loss"].size(), 50u);
}

} // namespace loss_cases_test
} // namespace assay
