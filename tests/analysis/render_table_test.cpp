#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "experiments/report/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace render_table_test {

using synthetic::full_plan;
using synthetic::synthetic_ledger;
using synthetic::SyntheticPlan;
using testing::HasSubstr;
using testing::Not;

std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::size_t lines_between(const std::string& text, const char* from, const char* to) {
  const std::size_t start = text.find(from), end = text.find(to, start);
  EXPECT_NE(end, std::string::npos) << text;
  return static_cast<std::size_t>(std::count(
      text.begin() + static_cast<long>(start), text.begin() + static_cast<long>(end), '\n'));
}

// Nine parts, each with a command of two lines.
TEST(RenderTable, MergedResultsHaveTwoLinesOfCommands) {
  LedgerData data = synthetic_ledger(full_plan());
  const std::string part = "assay run experiments/matrices/design-card.toml --data build/corpus "
                           "--out results/dc.part --cell 'a; b' --stop-after 545s --quiet";
  data.spec.command = part;
  for (int i = 1; i < 9; ++i) data.spec.command += "; " + part;
  const Report report = judge_results(data);
  for (const int width : {80, 100}) {
    const TableStyle style{.width = width, .unicode = true, .color = false};
    const std::string table = render_table(report, style);
    EXPECT_EQ(lines_between(table, "  command", "  plan "), 2U);
    EXPECT_THAT(table, test::names("assay run experiments", "8 more", "report.json"));
    EXPECT_GT(lines_between(render_table(report, style, {.cell = "", .verbose = true}),
                            "  command",
                            "  plan "),
              9U);
  }
  EXPECT_THAT(render_markdown(report), HasSubstr("'a; b'"));
}

// Every line fits, and no interval or figure is broken over two lines.
void expect_fits(const std::string& text, int width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(width_of(line), static_cast<std::size_t>(width)) << line;
    EXPECT_EQ(std::count(line.begin(), line.end(), '['), std::count(line.begin(), line.end(), ']'))
        << "an interval is not split: " << line;
    EXPECT_FALSE(line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with('%'))
        << "nor parted from its unit: " << line;
  }
}

// Long names, a failed gate, disturbed pairs, a claim that does not apply.
SyntheticPlan wide_plan() {
  SyntheticPlan plan = full_plan();
  plan.cells[0].name = "a_cell_with_a_rather_long_name/of_two_parts";
  plan.cells[0].levels[0].name = "the_reference_level_with_a_long_name";
  plan.cells[0].disturbed_share = 0.4;
  plan.cells[1].levels[1].gate_passes = false;
  plan.claims[0].requires_json = R"({"device":"cuda","preset":"base"})";
  return plan;
}

TEST(RenderTable, EveryViewFitsTheTerminal) {
  for (const SyntheticPlan& plan : {full_plan(), wide_plan()}) {
    const Report report = judge_results(synthetic_ledger(plan));
    const std::string& cell = report.cells[0].cell.name;
    for (const int width : {60, 80, 100})
      for (const TableView& view : {TableView{"", false}, {"", true}, {cell, false}})
        expect_fits(render_table(report, {.width = width, .unicode = true, .color = false}, view),
                    width);
  }
}

// Nothing about another cell: rows, alarms, claims, launches, events, notes.
TEST(RenderTable, OneCellNamesNoOther) {
  SyntheticPlan plan = wide_plan();
  plan.cells[0].name = "first";
  plan.cells[1].name = "second";
  plan.cells[0].control_effect = plan.cells[1].control_effect = 0.05; // an alarm in each
  const Report report = judge_results(synthetic_ledger(plan));
  ASSERT_EQ(report.cells.size(), 2U);
  for (const auto& [cell, other] : {std::pair{"first", "second"}, {"second", "first"}}) {
    const Report one = report_of_cell(report, cell);
    EXPECT_EQ(one.judgements, report.judgements);
    for (const LaunchSummary& launch : one.launches) EXPECT_EQ(launch.cell, cell);
    for (const ClaimResult& claim : one.claims) EXPECT_EQ(claim.cell.value_or(0), 0U);
    for (const Section& section : report_sections(one)) {
      for (const SectionRow& row : section.rows) EXPECT_NE(row.cell, other) << section.id;
      for (const std::string& note : section.notes)
        EXPECT_THAT(note, Not(HasSubstr(std::string("in ") + other))) << section.id;
    }
    const std::string text = render_table(report, {}, {.cell = cell, .verbose = false});
    EXPECT_THAT(text, HasSubstr(std::string("cell ") + cell));
    EXPECT_THAT(text, Not(HasSubstr(std::string(other) + ":")));
  }
}

TEST(RenderTable, BeginsWithRunAndTableThenDetails) {
  const Report report = judge_results(synthetic_ledger(full_plan()));
  const std::string text = render_table(report, {});
  std::size_t at = 0;
  for (const char* part : {"2 comparisons", // summary, then what measured it
                           "machine",
                           "2-core test CPU",
                           "build",
                           "b1d0",
                           "command",
                           "all pairs",
                           "slow → fast",
                           "-20.0 %",
                           "FASTER",
                           "A/A control",
                           "claim confirmed",
                           "end to end",
                           "claim-1",
                           "8 to 12 % less",
                           "Words:"}) {
    const std::size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << " after " << text.substr(0, at);
    at = found;
  }
  EXPECT_THAT(text, Not(HasSubstr("by CUDA events")));
  EXPECT_THAT(render_table(report, {}, {.cell = "", .verbose = true}), HasSubstr("by CUDA events"));
}

// The table's interval is the one that the verdict reads, not the 95 % interval.
TEST(RenderTable, ShowsTheJudgedInterval) {
  SyntheticPlan plan = full_plan();
  plan.cells[0].levels.push_back({.name = "faster", .effect = -0.2});
  const Report report = judge_results(synthetic_ledger(plan));
  ASSERT_EQ(report.judgements, 3);
  const Estimate& theta = report.cells[0].comparisons[0].effect->theta;
  ASSERT_NE(interval_text(theta.judged), interval_text(theta.at_95));
  const std::string text = render_table(report, {.width = 120, .unicode = true, .color = false});
  EXPECT_THAT(text, HasSubstr("98.33 % interval"));
  EXPECT_THAT(text, HasSubstr(effect_text(theta) + "  " + interval_text(theta.judged)));
}

TEST(RenderTable, OneCellOnRequest) {
  const Report report = judge_results(synthetic_ledger(full_plan()));
  const std::string text = render_table(report, {}, {.cell = "ema_swap", .verbose = false});
  EXPECT_THAT(text, HasSubstr("smallest detectable effect"));
  EXPECT_THAT(text, Not(HasSubstr("per evaluation"))) << "that is the other cell";
}

TEST(RenderTable, ClaimsThatDoNotApplyTakeOneLine) {
  const Report report = judge_results(synthetic_ledger(wide_plan()));
  const std::string text = render_table(report, {.width = 200, .unicode = true, .color = false});
  EXPECT_THAT(text, test::names("1 published claim", "cuda, preset base"));
  EXPECT_THAT(text, Not(HasSubstr("8 to 12")));
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["claims"].size(), 1u) << "data keep it";
}

TEST(TextWriter, KeepsSpacesAndIntervals) {
  TextWriter out({.width = 40, .unicode = false, .color = false});
  out.line("  a  b ");
  out.line("a number and its interval: measured -9.75 % [-10.25, -9.25] %; 12.5 ms");
  out.line("not a bracket of [words that go on and on and on for longer than a line]");
  EXPECT_EQ(out.take(),
            "a  b\n"
            "a number and its interval: measured\n-9.75 % [-10.25, -9.25] %; 12.5 ms\n"
            "not a bracket of [words that go on and\non and on for longer than a line]\n");
}

TEST(RenderTable, AsciiAndColourOnlyWhenAsked) {
  LedgerData data = synthetic_ledger(full_plan());
  data.spec.name = "größe → x";
  const Report report = judge_results(data);
  const std::string ascii = render_table(report, {.width = 100, .unicode = false, .color = false});
  EXPECT_TRUE(std::all_of(
      ascii.begin(), ascii.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  EXPECT_THAT(render_table(report, {}), Not(HasSubstr("\x1b")));
  const std::string colored = render_table(report, {.width = 100, .unicode = true, .color = true});
  EXPECT_THAT(colored, HasSubstr("\x1b[32mFASTER\x1b[0m"));
}

TEST(RenderTable, ControlCharactersInNamesDoNotReachTheTerminal) {
  LedgerData data = synthetic_ledger(full_plan());
  data.spec.name = "a\x1b[31mred";
  data.variants[1].name = "fa\x1b]0;title\x07st";
  EXPECT_THAT(render_table(judge_results(data), {}), Not(HasSubstr("\x1b")));
}

} // namespace render_table_test
} // namespace assay
