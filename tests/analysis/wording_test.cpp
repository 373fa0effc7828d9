// What people read: figures with their intervals, what comes first, and notes that appear once.
#include "experiments/analysis/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/text.h"
#include "experiments/evidence/loss_quality.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/section.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> rows_of(const Section& section) {
  std::vector<std::string> texts;
  for (const SectionRow& row : section.rows) texts.push_back(row.texts.front());
  return texts;
}

TEST(Figures, HaveThreeDigitsAndNoExponent) {
  EXPECT_EQ(human_seconds(1.2), "1.20 s");
  EXPECT_EQ(human_seconds(9.45), "9.45 s");
  EXPECT_EQ(human_seconds(0.012), "12.0 ms");
  EXPECT_EQ(human_seconds(0.9996), "1.00 s") << "not 1000 ms";
  EXPECT_EQ(human_seconds(4.2e-7), "0.42 us");
  EXPECT_EQ(token_rate_text(2.7e6), "2.70 M tokens/s");
  EXPECT_EQ(token_rate_text(271'000), "271 K tokens/s");
}

TEST(Figures, ALossAndItsIntervalHaveTheSameDigits) {
  const std::vector<double> differences{-0.00210, -0.00060, -0.00290, -0.00180};
  std::vector<SeedLoss> seeds;
  for (std::size_t i = 0; i < differences.size(); ++i)
    seeds.push_back({i, 2.0, 2.0 + differences[i]});
  const LossQuality result = judge_loss(seeds, 0.02, LossRule::Equivalence);
  EXPECT_THAT(result.reason,
              testing::ContainsRegex("difference -0\\.00[0-9]{3} \\[-0\\.00[0-9]{3}, "
                                     "-0\\.00[0-9]{3}\\] nats/token"));
  EXPECT_THAT(result.reason, Not(HasSubstr("e-0")));
}

TEST(Intervals, NameTheirLevelOrTheReasonWhyThereIsNone) {
  const Estimate five = estimate({-0.1, -0.11, -0.09, -0.1, -0.12}, 0.01);
  EXPECT_EQ(judged_text(five), effect_text(five) + " " + interval_text(five.judged));
  EXPECT_EQ(at_95_text(five), effect_text(five) + ", 95 % interval " + interval_text(five.at_95));
  const Estimate one = estimate({0.005}, 0.01);
  EXPECT_EQ(judged_text(one), "+0.50 % (1 launch, no interval)");
  EXPECT_EQ(at_95_text(one), judged_text(one));
}

// One launch: the table shows no effect, the details say why, and no dash replaces an interval.
TEST(Intervals, OneLaunchShowsNoEffectInTheTable) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.timed_launches = 1;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  ASSERT_TRUE(first(report).effect);
  const SectionRow row = report_sections(report).front().rows.front();
  EXPECT_EQ(row.texts[2], "-");
  EXPECT_EQ(row.texts[3], "-");
  const std::string text = render_table(report, {}, {cell.name, false});
  EXPECT_THAT(text, HasSubstr("(1 launch, no interval)"));
  EXPECT_THAT(text, Not(HasSubstr("% - ")));
  EXPECT_THAT(text, Not(HasSubstr("1 launches")));
  EXPECT_THAT(render_html(report), HasSubstr("(1 launch, no interval)"));
}

TEST(Intervals, ExplainPrintsTheVerdictsOwn) {
  const Report report = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  const std::string text = render_explain_table(report, {0, 0}, 5, {});
  EXPECT_THAT(text, HasSubstr(judged_text(first(report).effect->theta)));
  EXPECT_THAT(text, HasSubstr("interval of the verdict: " + interval_level_text(report)));
}

// An evaluation may be 40 % faster and still be a thousandth of the training time.
TEST(Findings, ProblemsFirstThenEffectsOnTraining) {
  SyntheticPlan plan;
  plan.noise = 0.01;
  SyntheticCell evaluation = two_level_cell(-0.5);
  evaluation.name = "evaluation";
  evaluation.unit = "evaluation";
  SyntheticCell step = two_level_cell(-0.1);
  step.name = "step";
  SyntheticCell rejected = two_level_cell(-0.3);
  rejected.name = "rejected";
  rejected.levels[1].gate_passes = false;
  SyntheticCell harmed = two_level_cell(-0.3);
  harmed.name = "harmed";
  harmed.levels[1].nan_in_launch = 2;
  plan.cells = {evaluation, step, rejected, harmed};
  const Report report = judge_results(synthetic_ledger(plan));
  EXPECT_THAT(rows_of(findings_section(report)),
              ElementsAre(testing::AllOf(HasSubstr("harmed: "), HasSubstr("NaN")),
                          testing::AllOf(HasSubstr("rejected: "), HasSubstr("gate bitwise")),
                          testing::StartsWith("step: slow -> fast: FASTER"),
                          testing::AllOf(HasSubstr("FASTER -39"), HasSubstr("of training time"))));
}

TEST(Findings, AHarmIsNotProvisional) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels[1].nan_in_launch = 4;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_TRUE(first(report).verdict.has(Tag::Provisional));
  EXPECT_EQ(headline(first(report).verdict).text, "harms training");
}

TEST(Notes, NameTheFasterLevelsOfUnprovenQuality) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.equivalence = "objective";
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_THAT(render_table(report, {}),
              HasSubstr("FASTER, but quality unproven: ema_swap (slow → fast)."));
  const Report proven = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  EXPECT_THAT(render_table(proven, {}), Not(HasSubstr("quality unproven")));
}

TEST(Notes, AColumnThatIsUnknownEverywhereTakesOneLine) {
  Report report = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  report.cells[0].speed.resize(2);
  for (VariantSpeed& speed : report.cells[0].speed)
    speed.step_seconds = 1, speed.tokens_per_second = 10;
  report.cells[0].speed[0].variant = "slow", report.cells[0].speed[1].variant = "fast";
  const auto roofline = [&] {
    for (Section& section : report_sections(report))
      if (section.id == "roofline") return section;
    return Section{};
  };
  const Section folded = roofline();
  EXPECT_EQ(folded.columns.size(), 4u);
  ASSERT_FALSE(folded.notes.empty());
  EXPECT_EQ(folded.notes.front(),
            "Unknown everywhere: MFU, at measured peaks, kernel launches, bottleneck.");
  report.cells[0].speed[1].launches = 12;
  EXPECT_EQ(roofline().columns.size(), 5u) << "known once is shown";
}

TEST(Notes, OneReasonForAllComparisonsWithoutTraces) {
  SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells.push_back(two_level_cell(-0.2));
  plan.cells.back().name = "other";
  const Report report = judge_results(synthetic_ledger(plan), {.traces = "/nonexistent results"});
  const std::vector<std::string> notes = no_breakdown_notes(report, {{0, 0}, {1, 0}});
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_THAT(notes.front(), testing::StartsWith("no breakdown of ema_swap, other: "));
  const std::string page = render_html(report);
  EXPECT_EQ(page.find("no breakdown"), page.rfind("no breakdown"));
}

TEST(Page, DrawsOnlyTheRangesOfClaimsThatApply) {
  SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.claims = {synthetic::step_time_claim(0.08, 0.12)};
  const auto page = [&] { return render_html(judge_results(synthetic_ledger(plan))); };
  EXPECT_THAT(page(), HasSubstr("rect class=\"claimed\""));
  plan.claims[0].requires_json = R"({"device":"cuda"})";
  EXPECT_THAT(page(), Not(HasSubstr("rect class=\"claimed\"")));
}

TEST(Report, EndsWithTheWayToItsWords) {
  const Report report = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  EXPECT_THAT(render_table(report, {}), testing::EndsWith("\nWords: `assay help terms`\n"));
  EXPECT_THAT(render_markdown(report), testing::EndsWith("\nWords: `assay help terms`\n"));
  EXPECT_THAT(render_html(report), HasSubstr("Words: `assay help terms`"));
}

} // namespace
} // namespace assay
