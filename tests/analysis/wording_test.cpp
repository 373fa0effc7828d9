// What people read: figures with their intervals, what comes first, and notes that appear once.
#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "experiments/evidence/loss/loss_quality.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/report/explain_wording.h"
#include "experiments/report/html/html_section.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "experiments/report/section.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace wording_test {

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

TEST(Intervals, ABoundBelowZeroKeepsItsSign) {
  const auto of = [](double lower, double upper) {
    return interval_text(Interval{std::log1p(lower), std::log1p(upper)});
  };
  EXPECT_EQ(of(-0.999, 1e20), "[-100, >+100000] %");
  EXPECT_EQ(of(-0.0004, 0.105), "[-0.0, +10.5] %");
  EXPECT_EQ(of(0.0004, 0.105), "[+0.0, +10.5] %");
  EXPECT_EQ(of(-0.105, -0.0004), "[-10.5, -0.0] %");
  EXPECT_EQ(of(0, 0.105), "[+0.0, +10.5] %");
  EXPECT_EQ(change_text(-1e-6), "+0.00 %") << "an estimate has no side to tell";
}

// Some bytes more or less read like none, in every launch the same or not.
TEST(Figures, AMemoryChangeThatRoundsToNoneHasOneForm) {
  for (const double ratio : {1.0, 1.00002, 0.99998}) {
    SyntheticCell cell = two_level_cell(-0.1);
    cell.levels[1].memory_ratio = ratio;
    const Report report = judge_results(synthetic_ledger(plan_of(cell)));
    const Section verdicts = report_sections(report).front();
    EXPECT_EQ(verdicts.columns.at(4).title, "memory");
    EXPECT_EQ(verdicts.rows.front().texts.at(4), "0 %") << ratio;
    EXPECT_EQ(memory_text(first(report).memory), "0 %") << ratio;
  }
  EXPECT_EQ(memory_change_text(std::nullopt), "-");
}

// Differences that are all noise add up to noise; that they do not add up is always said.
TEST(Breakdown, AddsUpOnlyWhereAStageDiffers) {
  Explanation explanation;
  Waterfall& waterfall = explanation.waterfall;
  waterfall.timed_a_ns = waterfall.a_ns = 1e8;
  waterfall.pairs = 10;
  waterfall.closed = true;
  StageDelta& forward = waterfall.stages.emplace_back();
  forward.delta_ns = -1e6;
  EXPECT_THAT(where_text(explanation), Not(HasSubstr("add up")));
  EXPECT_THAT(closure_text(waterfall), Not(HasSubstr("add up")));
  forward.clear = true;
  EXPECT_THAT(where_text(explanation), HasSubstr("the parts add up"));
  EXPECT_THAT(closure_text(waterfall), HasSubstr("the parts add up"));
  forward.clear = waterfall.closed = false;
  EXPECT_THAT(where_text(explanation), HasSubstr("do not add up"));
  EXPECT_THAT(closure_text(waterfall), HasSubstr("do not add up"));
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
  EXPECT_THAT(text, test::names("(1 launch,", "no interval)"));
  EXPECT_THAT(text, Not(HasSubstr("% - ")));
  EXPECT_THAT(text, Not(HasSubstr("1 launches")));
  EXPECT_THAT(render_html(report), test::names("(1 launch,", "no interval)"));
}

TEST(Intervals, ExplainPrintsTheVerdictsOwn) {
  const Report report = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  const std::string text = render_explain_table(report, {0, 0}, 5, {});
  EXPECT_THAT(text, HasSubstr(judged_text(first(report).effect->theta)));
  EXPECT_THAT(text, HasSubstr("the verdict: " + interval_level_text(report)));
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
              ElementsAre(testing::AllOf(HasSubstr("harmed: "), HasSubstr("nan")),
                          testing::AllOf(HasSubstr("rejected: "), HasSubstr("gate bitwise")),
                          testing::StartsWith("step: slow -> fast: FASTER")));
  EXPECT_THAT(rows_of(further_findings_section(report)),
              ElementsAre(testing::AllOf(HasSubstr("FASTER -39"), HasSubstr("of training time"))));
}

// The page leads with three; a gain is one of them, however many problems there are.
TEST(Findings, ThreeAreAboveTheTableAndTheOthersBelow) {
  SyntheticPlan plan;
  plan.noise = 0.01;
  for (const double effect : {-0.1, -0.2, -0.3, -0.4}) {
    for (const bool passes : {true, false}) {
      plan.cells.push_back(two_level_cell(effect));
      plan.cells.back().name = fmt::format("{}{:.0f}", passes ? "gain" : "wrong", -10 * effect);
      plan.cells.back().levels[1].gate_passes = passes;
    }
  }
  const Report report = judge_results(synthetic_ledger(plan));
  EXPECT_THAT(rows_of(findings_section(report)),
              ElementsAre(testing::StartsWith("wrong4: "),
                          testing::StartsWith("wrong3: "),
                          testing::StartsWith("gain4: ")));
  const std::vector<std::string> others = rows_of(further_findings_section(report));
  EXPECT_THAT(others,
              ElementsAre(testing::StartsWith("wrong2: "),
                          testing::StartsWith("gain3: "),
                          testing::StartsWith("gain2: ")));
  const std::string page = render_html(report);
  const std::size_t table = page.find("<table");
  for (const std::string& text : rows_of(findings_section(report)))
    EXPECT_LT(page.find("<li>" + html_text(text)), table) << text;
  for (const std::string& text : others) {
    const std::size_t at = page.find("<li>" + html_text(text));
    EXPECT_TRUE(at != std::string::npos && at > table) << text;
  }
}

// By training time alone the largest effect of the table would be fourth.
TEST(Findings, TheLargestEffectOfTheTableIsAmongThem) {
  SyntheticPlan plan;
  plan.noise = 0.01;
  for (const double effect : {-0.1, -0.2, -0.3, -0.4}) {
    plan.cells.push_back(two_level_cell(effect));
    plan.cells.back().name = fmt::format("step{:.0f}", -10 * effect);
  }
  plan.cells.push_back(two_level_cell(-0.8));
  plan.cells.back().name = "evaluation";
  plan.cells.back().unit = "evaluation";
  const std::vector<std::string> rows =
      rows_of(findings_section(judge_results(synthetic_ledger(plan))));
  EXPECT_THAT(rows,
              ElementsAre(testing::StartsWith("step4: "),
                          testing::StartsWith("step3: "),
                          testing::StartsWith("evaluation: ")));
}

TEST(Findings, OfEqualProblemsTheLargestEffectIsFirst) {
  SyntheticPlan plan;
  plan.noise = 0.01;
  for (const double effect : {-0.1, -0.2, -0.3, -0.4}) {
    plan.cells.push_back(two_level_cell(effect));
    plan.cells.back().name = fmt::format("step{:.0f}", -10 * effect);
    plan.cells.back().levels[1].gate_passes = false;
  }
  EXPECT_THAT(rows_of(findings_section(judge_results(synthetic_ledger(plan)))),
              ElementsAre(testing::StartsWith("step4: "),
                          testing::StartsWith("step3: "),
                          testing::StartsWith("step2: ")));
}

TEST(Findings, SayAReasonThatSeveralHaveOnce) {
  SyntheticPlan plan;
  for (const char* name : {"one", "two"}) {
    plan.cells.push_back(two_level_cell(-0.1));
    plan.cells.back().name = name;
    plan.cells.back().levels[1].gate_passes = false;
  }
  const std::vector<std::string> rows =
      rows_of(findings_section(judge_results(synthetic_ledger(plan))));
  EXPECT_THAT(rows, ElementsAre(HasSubstr("gate bitwise"), testing::EndsWith("; as above")));
}

TEST(Findings, SayWhyAPlanHasNoVerdictYet) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.timed_launches = 2;
  EXPECT_THAT(rows_of(findings_section(judge_results(synthetic_ledger(plan_of(cell))))),
              ElementsAre(test::names("INCOMPLETE", "2 usable timed launches; a verdict needs")));
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
              test::names("FASTER", "quality unproven: ema_swap", "slow → fast"));
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
            "Not known in any row: MFU, at measured peaks, kernel launches, bottleneck.");
  report.cells[0].speed[1].kernels = 12;
  EXPECT_EQ(roofline().columns.size(), 5u) << "known once is shown";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

// Three comparisons of one cell: each side's figures are there once, in every form.
TEST(Roofline, IsShownOncePerCellAndSide) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels.push_back({.name = "other"});
  cell.also_compare = {{"fast", "other"}};
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  ASSERT_EQ(report.cells[0].comparisons.size(), 3u);
  const std::vector<Section> sections = cell_sections(report, 0);
  ASSERT_EQ(sections.size(), 1u);
  std::vector<std::string> titles;
  for (const SectionColumn& column : sections[0].columns) titles.push_back(column.title);
  EXPECT_THAT(titles, ElementsAre("", "slow", "fast", "other"));
  for (const SectionRow& row : sections[0].rows) EXPECT_EQ(row.texts.size(), 4u);
  for (const std::string& text :
       {render_html(report), render_table(report, {.width = 200}, {.cell = "", .verbose = true})}) {
    EXPECT_EQ(count(text, "step at measured peaks"), 1u);
    EXPECT_EQ(count(text, "hroughput and roofline"), 2u) << "the report's table and the cell's";
  }
  cell.unit = "evaluation"; // its variants share one train step
  const Report shared = judge_results(synthetic_ledger(plan_of(cell)));
  EXPECT_EQ(cell_sections(shared, 0).at(0).columns.size(), 2u);
}

// What several cells or launches have in common takes one line with their names and numbers.
TEST(Lines, OfAnIncompleteRunAreCollapsed) {
  SyntheticPlan plan;
  for (const char* name : {"one", "two", "three"}) {
    plan.cells.push_back(two_level_cell(-0.1));
    plan.cells.back().name = name;
    plan.cells.back().memory_launches = 0;
  }
  LedgerData data = synthetic_ledger(plan);
  for (LaunchRow& launch : data.launches)
    if (launch.kind == LaunchKind::Timed && launch.cell != 3)
      launch.state = LaunchState::Failed, launch.reason = "the worker died";
  LaunchRow again = data.launches.back();
  again.id = 1000, again.cell = 3, again.kind = LaunchKind::Timed, again.index = 6;
  again.state = LaunchState::Failed, again.reason = "no memory";
  data.launches.push_back(again);
  const Report report = judge_results(data);
  EXPECT_THAT(
      alarm_lines(report),
      ElementsAre("one and two: 5 attempts of timed launches 1 to 5 failed: the worker died",
                  "three: timed launch 6 (attempt 1) failed: no memory"));
  EXPECT_THAT(missing_lines(report),
              ElementsAre("one and two (2 cells): memory launch, 5 of 5 timed launches",
                          "three: memory launch"));
  EXPECT_EQ(count(render_table(report, {.width = 200}), "the worker died"), 1u);
  EXPECT_THAT(render_html(report), test::names("missing in 3", "of 3 cells"));
}

TEST(Lines, OfAlarmsNameTheComparisonsThatShareThem) {
  Report report;
  for (const char* name : {"one", "two"}) {
    CellReport& cell = report.cells.emplace_back();
    cell.cell.id = static_cast<std::int64_t>(report.cells.size());
    cell.cell.name = name;
    for (const char* candidate : {"b", "c"}) {
      Comparison& comparison = cell.comparisons.emplace_back();
      comparison.a = "a";
      comparison.b = candidate;
    }
  }
  const auto alarm = [&](std::int64_t cell, const char* comparison, const char* text) {
    report.alarms.push_back({AlarmCode::PairsExcluded, cell, comparison, text});
  };
  alarm(1, "a -> b", "1 pair");
  alarm(1, "a -> c", "1 pair");
  alarm(2, "a -> c", "1 pair");
  alarm(2, "a -> b", "2 pairs");
  EXPECT_THAT(alarm_lines(report),
              ElementsAre("one (a -> b, a -> c) and two (a -> c): 1 pair", "two: a -> b: 2 pairs"));
}

TEST(Lines, NumberLaunchesWithinTheirCell) {
  EXPECT_EQ(numbered_launches_text(LaunchKind::Timed, {3}), "timed launch 3");
  EXPECT_EQ(numbered_launches_text(LaunchKind::Timed, {1, 2, 3, 5}), "timed launches 1 to 3, 5");
  EXPECT_EQ(numbered_launches_text(LaunchKind::Parity, {1}), "parity launch");
  EXPECT_EQ(numbered_launches_text(LaunchKind::Memory, {2}), "memory launch 2");
}

// The second cell's first timed launch is the ledger's tenth or so; three rounds warm up.
TEST(Launches, AndRoundsAreNumberedAsPeopleCountThem) {
  SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells.push_back(two_level_cell(-0.1));
  plan.cells[1].name = "second";
  plan.cells[1].disturbed_share = 0.1;
  LedgerData data = synthetic_ledger(plan);
  const LaunchRow* timed = nullptr;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == 2 && launch.kind == LaunchKind::Timed && launch.index == 2) timed = &launch;
  ASSERT_NE(timed, nullptr);
  ASSERT_GT(timed->id, 2);
  data.events.push_back({timed->id, 7, "2026-11-21T00:00:00Z", "stopped", "interrupted"});
  data.events.push_back({timed->id, 2, "2026-11-21T00:00:00Z", "warmup_end", "steady"});
  const Report report = judge_results(data);
  for (const Section& section : report_sections(report))
    if (section.id == "events") {
      EXPECT_THAT(section.rows.at(0).texts,
                  ElementsAre("second", "timed 2", testing::_, "7", "stopped", "interrupted"));
      EXPECT_EQ(section.rows.at(1).texts.at(3), "3 of warm-up");
    }
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json["events"][0]["launch_id"], timed->id);
  EXPECT_EQ(json["events"][0]["launch_index"], 2);
  const Comparison& comparison = report.cells[1].comparisons[0];
  EXPECT_EQ(comparison.pairs.launches[0].pairs.front().round, 1);
  EXPECT_EQ(comparison.pairs.launches[0].pairs.back().round, plan.rounds);
  const auto& excluded = json["cells"][1]["comparisons"][0]["pairs"]["excluded_pairs"];
  ASSERT_FALSE(excluded.empty());
  EXPECT_EQ(excluded[0]["launch_index"], 1);
  EXPECT_GT(excluded[0]["launch_id"], 5);
}

// The column beside "effect" says what every pair gives where no effect is shown.
TEST(AllPairs, AreShownWhereverThereArePairs) {
  SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells.push_back(two_level_cell(-0.1));
  plan.cells[1].name = "once";
  plan.cells[1].timed_launches = 1;
  plan.cells.push_back(two_level_cell(-0.1));
  plan.cells[2].name = "unmeasured";
  plan.cells[2].timed_launches = 0;
  const auto cells_of = [&] {
    const Report report = judge_results(synthetic_ledger(plan));
    const Section table = report_sections(report).front();
    EXPECT_EQ(table.columns.at(4).title, "all pairs");
    std::vector<std::string> texts;
    for (const SectionRow& row : table.rows) texts.push_back(row.texts.at(4));
    return texts;
  };
  EXPECT_THAT(cells_of(),
              ElementsAre(testing::StartsWith("-"), testing::EndsWith("% (1 launch)"), "-"));
  plan.cells[0].disturbed_share = 1; // CONTENDED: the table has no other figure
  EXPECT_THAT(cells_of().at(0), testing::EndsWith(" %"));
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

// A card's reasons, measurements and breakdown do not repeat each other.
TEST(Page, SaysEachSentenceOfACardOnce) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.equivalence = "objective";
  Report report = judge_results(synthetic_ledger(plan_of(cell)));
  Comparison& comparison = report.cells[0].comparisons[0];
  comparison.a_ranks =
      comparison.b_ranks = {{1e6, TracedWait{1e6, 2e5, {}}}, {2e6, TracedWait{2e6, 4e5, {}}}};
  Explanation& explanation = comparison.explanation.emplace();
  explanation.traced_as = "device";
  explanation.waterfall.pairs = 30;
  explanation.waterfall.timed_a_ns = 1e7;
  const std::string page = render_html(report);
  const std::string card = page.substr(page.find("<section class=\"card\">"));
  for (const std::string& sentence : {ranks_text(comparison),
                                      comparison.evidence.quality_reason.text,
                                      control_text(report.cells[0]),
                                      std::string("do not add up to the timed difference")}) {
    ASSERT_FALSE(sentence.empty());
    const std::string shown = html_text(sentence);
    EXPECT_LE(count(card, shown), 1u) << shown;
    EXPECT_GE(count(page, shown), 1u) << shown;
  }
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
  EXPECT_THAT(render_html(report), test::names("Words: ", "<code>assay help terms</code>"));
}

} // namespace wording_test
} // namespace assay
