#include "experiments/report/render.h"
#include "experiments/report/section.h"
#include "experiments/report/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/sections/list.h"
#include "tests/names.h"
#include "tests/paths.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace {

using synthetic::step_time_claim;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using synthetic::two_level_cell;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kMarkup = "<script>alert(\"x\")</script> & 'y'";

SyntheticPlan full_plan() {
  SyntheticPlan plan;
  plan.noise = 0.02;
  SyntheticCell evaluation = two_level_cell(-0.4);
  evaluation.name = "ema_swap/evaluation";
  evaluation.unit = "evaluation";
  SyntheticCell step = two_level_cell(-0.1);
  step.levels[1].memory_ratio = 0.8;
  step.disturbed_share = 0.02;
  step.device_times = true;
  plan.cells = {step, evaluation};
  plan.claims = {step_time_claim(0.08, 0.12)};
  return plan;
}

std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The end of a cell's name may be another cell's name.
TEST(DisplayText, EveryCellOfASpeedNoteIsNamedOnce) {
  Report report;
  for (const char* name : {"three", "xthree", "three"}) {
    report.cells.emplace_back().cell.name = name;
    for (int side = 0; side < 2; ++side)
      report.cells.back().speed.emplace_back().unknown = "no peaks";
  }
  report.cells[2].cell.name = "e";
  EXPECT_THAT(speed_notes(report),
              testing::ElementsAre("MFU and bottleneck unknown in three, xthree, e: no peaks"));
}

TEST(DisplayText, ASpeedNoteNamesTheVariantsThatLackTheFigure) {
  Report report;
  report.cells.emplace_back().cell.name = "update_pass";
  for (const char* variant : {"per_parameter", "foreach"}) {
    VariantSpeed& speed = report.cells.back().speed.emplace_back();
    speed.variant = variant;
    speed.peaks = MeasuredPeaks{};
  }
  report.cells.back().speed.front().unknown = "no trace";
  EXPECT_THAT(speed_notes(report),
              testing::ElementsAre("Bottleneck unknown in update_pass (per_parameter): no trace"));
}

TEST(DisplayText, AColumnThatIsUnknownInEveryRowIsNamedInANote) {
  Section section{.columns = {{"cell"}, {"step"}, {"wait"}, {"MFU"}},
                  .rows = {{{"a", "1", "-", "unknown"}}, {{"b", "-", "-", "unknown"}}}};
  fold_unknown_columns(section);
  EXPECT_EQ(section.columns.size(), 2);
  EXPECT_THAT(section.rows[0].texts, testing::ElementsAre("a", "1"));
  EXPECT_THAT(section.notes, testing::ElementsAre("Not known in any row: wait, MFU."));
}

TEST(DisplayText, RankTimesWithoutATraceHaveNoColumnsOfOne) {
  Report report;
  report.cells.emplace_back().comparisons.emplace_back().a_ranks = {{1e6, {}}, {2e6, {}}};
  EXPECT_EQ(ranks_section(report).columns.size(), 4);
  report.cells[0].comparisons[0].a_ranks[1].traced = TracedWait{1e6, 2e5, {}};
  EXPECT_EQ(ranks_section(report).columns.size(), 7);
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

// Claims of cells that have no launch yet are one note; each of them is in report.json.
TEST(Claims, ThoseNotMeasuredYetAreOneLine) {
  SyntheticPlan plan = full_plan();
  plan.cells[0].parity_launches = plan.cells[0].timed_launches = plan.cells[0].memory_launches = 0;
  const Report report = judge_results(synthetic_ledger(plan));
  ASSERT_EQ(report.claims.at(0).state, ClaimState::Undecided);
  const Section section = claims_section(report);
  for (const SectionRow& row : section.rows) EXPECT_NE(row.cell, report.cells[0].cell.name);
  EXPECT_THAT(section.notes,
              testing::Contains(test::names("Not measured", report.claims[0].claim.id)));
  EXPECT_THAT(claims_section(judge_results(synthetic_ledger(full_plan()))).notes,
              Not(testing::Contains(HasSubstr("Not measured"))));
}

// Whether `path` ("speed[].mfu") leads somewhere from any object of the document.
bool leads_somewhere(const nlohmann::json& json, const std::string& path) {
  const std::size_t end = path.find_first_of(".[");
  const std::string key = path.substr(0, end);
  if (json.is_object() && json.contains(key)) {
    std::size_t next = end;
    const bool list = next != std::string::npos && path.compare(next, 2, "[]") == 0;
    if (list) next += 2;
    if (next == std::string::npos || next >= path.size()) return true;
    const nlohmann::json& inner = json[key];
    const std::string rest = path.substr(next + 1);
    if (list && !inner.empty() && inner[0].contains(rest)) return true;
    if (!list && inner.is_object() && leads_somewhere(inner, rest)) return true;
  }
  return json.is_structured() && std::any_of(json.begin(), json.end(), [&](const auto& inner) {
           return leads_somewhere(inner, path);
         });
}

// The third column of docs/glossary.md, where it names keys of report.json.
TEST(Glossary, NamesKeysOfTheReport) {
  const auto report =
      nlohmann::json::parse(render_json(judge_results(synthetic_ledger(full_plan()))));
  std::ifstream file(test::source_dir() + "/docs/glossary.md");
  int found = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t cell = line.rfind(" | `");
    if (cell == std::string::npos) continue;
    const std::size_t start = cell + 4, end = line.find('`', start);
    const std::string path = line.substr(start, end - start);
    if (line.find("in report.json", end) == std::string::npos && !path.starts_with("verdict."))
      continue;
    ++found;
    EXPECT_TRUE(leads_somewhere(report, path)) << line;
  }
  EXPECT_GT(found, 30);
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

// A result whose pairs are disturbed keeps its figure, the one with all pairs, in every form.
TEST(Renderers, TheEffectWithAllPairsIsAlwaysThere) {
  for (const double share : {0.1, 1.0}) {
    SyntheticPlan plan = full_plan();
    plan.cells[0].disturbed_share = share;
    const Report report = judge_results(synthetic_ledger(plan));
    const Comparison& comparison = report.cells[0].comparisons[0];
    ASSERT_EQ(comparison.effect.has_value(), share < 1);
    const std::string all = effect_text(comparison.effect_all->theta) + " ";
    const std::string interval = interval_text(comparison.effect_all->theta.judged);
    for (const std::string& text :
         {render_table(report, {.width = 200, .unicode = true, .color = false}),
          render_html(report)}) {
      EXPECT_THAT(text, HasSubstr(all + interval));
      EXPECT_THAT(text, HasSubstr("all pairs"));
    }
    EXPECT_THAT(render_markdown(report), HasSubstr(all + "\\" + interval.substr(0, 4)));
    const auto json = nlohmann::json::parse(render_json(report));
    EXPECT_EQ(json["cells"][0]["comparisons"][0]["effect_all_pairs"]["time"]["log_ratio"],
              comparison.effect_all->theta.value);
  }
}

TEST(Sections, RowsOfACellLeaveItsNameOut) {
  SyntheticPlan plan = full_plan();
  plan.cells[0].name = "first";
  const Report report = judge_results(synthetic_ledger(plan));
  for (const Section& section : report_sections(report)) {
    const Section one = rows_of_cell(section, "first");
    const bool named = !section.columns.empty() && section.columns.front().title == "cell";
    EXPECT_EQ(section.columns.size() - one.columns.size(), named ? 1U : 0U) << section.id;
    EXPECT_EQ(static_cast<std::ptrdiff_t>(one.rows.size()),
              std::count_if(section.rows.begin(),
                            section.rows.end(),
                            [](const SectionRow& row) { return row.cell == "first"; }))
        << section.id;
    for (const SectionRow& row : one.rows) {
      EXPECT_EQ(row.texts.size(), std::max<std::size_t>(one.columns.size(), 1)) << section.id;
      EXPECT_FALSE(named && row.texts.front() == "first") << section.id;
    }
  }
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

TEST(RenderJson, ParsesAndCarriesTheFigures) {
  const Report report = judge_results(synthetic_ledger(full_plan()));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json["schema_version"], 4);
  EXPECT_EQ(json["complete"], true);
  const auto& comparison = json["cells"][0]["comparisons"][0];
  EXPECT_EQ(comparison["verdict"]["speed"], "FASTER");
  EXPECT_NEAR(comparison["effect"]["time"]["log_ratio"].get<double>(), -0.1, 0.01);
  EXPECT_EQ(comparison["effect"]["launches"].size(), 5u);
  EXPECT_EQ(comparison["pairs"]["excluded"], comparison["pairs"]["excluded_pairs"].size());
  EXPECT_GT(comparison["pairs"]["excluded"], 0);
  EXPECT_EQ(json["claims"][0]["state"], "CONFIRMED");
  EXPECT_EQ(json["launches"].size(), report.launches.size());
  EXPECT_EQ(json["launches"][0]["identity"]["build"], "b1d0");
}

TEST(RenderJson, NonFiniteAndBrokenTextStayValid) {
  LedgerData data = synthetic_ledger(full_plan());
  data.gates[0].value = NAN;
  data.gates[0].detail = "\xff\xfe";
  data.cells[0].config_json = "not json";
  const auto json = nlohmann::json::parse(render_json(judge_results(data)));
  EXPECT_TRUE(json["cells"][0]["comparisons"][0]["evidence"]["gates"][0]["value"].is_null());
  EXPECT_TRUE(json["cells"][0]["config"].is_null());
}

TEST(RenderCsv, OneRowPerVisitAndQuotedNames) {
  LedgerData data = synthetic_ledger(full_plan());
  data.cells[0].name = "a,\"b\"";
  const std::string csv = render_csv(data);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')),
            data.visits.size() + 1);
  EXPECT_THAT(csv, HasSubstr("\r\n\"a,\"\"b\"\"\",ema_swap,"));
  const std::string header = csv.substr(0, csv.find("\r\n"));
  const std::string last = csv.substr(csv.rfind("\r\n", csv.size() - 3) + 2);
  EXPECT_EQ(std::count(header.begin(), header.end(), ','),
            std::count(last.begin(), last.end(), ','));
}

// Every text field of the ledger that a person or a file can choose.
LedgerData poisoned() {
  LedgerData data = synthetic_ledger(full_plan());
  data.spec.name = data.spec.matrix_toml = data.spec.command = data.spec.hash = kMarkup;
  for (OptimizationRow& row : data.optimizations) row.summary = kMarkup;
  for (CellRow& cell : data.cells) cell.name = kMarkup;
  for (VariantRow& variant : data.variants) variant.name = kMarkup;
  for (ClaimRow& claim : data.claims)
    claim.id = claim.text = claim.source = claim.conditions = kMarkup;
  for (GateRow& gate : data.gates) gate.name = gate.detail = kMarkup;
  for (LaunchRow& launch : data.launches) {
    launch.reason = launch.build_order = kMarkup;
    launch.identity.host = launch.identity.cpu = launch.identity.environment = kMarkup;
  }
  data.events.push_back({1, 0, kMarkup, kMarkup, kMarkup});
  data.launches.back().state = LaunchState::Failed;
  return data;
}

TEST(RenderHtml, MarkupInNamesArrivesEscaped) {
  const std::string html = render_html(judge_results(poisoned()));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html,
              HasSubstr("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;y&#39;"));
  EXPECT_THAT(render_markdown(judge_results(poisoned())), Not(HasSubstr("<script")));
}

TEST(RenderHtml, IsSelfContained) {
  const std::string html = render_html(judge_results(synthetic_ledger(full_plan())));
  EXPECT_THAT(html, HasSubstr("(max-width:700px)")) << "readable on a phone";
  for (const char* external :
       {"http://", "https://", "src=", "href=", "@import", "url(", "<script"})
    EXPECT_THAT(html, Not(HasSubstr(external)));
  for (const char* part : {"<svg",
                           "class=\"claimed\"",
                           "class=\"band\"",
                           "prefers-color-scheme:dark",
                           "b1d0",
                           "A/A control",
                           "class=\"excluded\""})
    EXPECT_THAT(html, HasSubstr(part));
  for (const char* not_a_number : {">nan", "\"nan", " nan", ">inf", "\"inf"})
    EXPECT_THAT(html, Not(HasSubstr(not_a_number)));
}

TEST(RenderMarkdown, ColumnsSurviveNames) {
  LedgerData data = synthetic_ledger(full_plan());
  data.cells[0].name = "a|b\nc";
  const std::string text = render_markdown(judge_results(data));
  EXPECT_THAT(text, HasSubstr("a\\|b c"));
  EXPECT_THAT(text, HasSubstr("| claim-1 |"));
}

TEST(Renderers, SucceedAtEveryStageOfALedger) {
  SyntheticPlan plan = full_plan();
  for (SyntheticCell& cell : plan.cells) cell.memory_launches = 1;
  const LedgerData whole = synthetic_ledger(plan);
  std::vector<LedgerData> stages(1); // nothing at all
  for (std::size_t launches = 0; launches <= whole.launches.size(); ++launches) {
    LedgerData stage = whole;
    stage.launches.resize(launches);
    const auto kept = [&](std::int64_t id) { return id <= static_cast<std::int64_t>(launches); };
    std::erase_if(stage.visits, [&](const VisitRow& x) { return !kept(x.launch); });
    std::erase_if(stage.metrics, [&](const MetricRow& x) { return !kept(x.launch); });
    std::erase_if(stage.gates, [&](const GateRow& x) { return !kept(x.launch); });
    if (launches > 0) stage.launches.back().state = LaunchState::Running;
    stages.push_back(std::move(stage));
  }
  for (const LedgerData& stage : stages) {
    const Report report = judge_results(stage);
    EXPECT_FALSE(render_table(report, {}).empty());
    EXPECT_THAT(render_html(report), HasSubstr("</html>"));
    EXPECT_TRUE(nlohmann::json::accept(render_json(report)));
    EXPECT_FALSE(render_markdown(report).empty());
    EXPECT_FALSE(render_csv(stage).empty());
    EXPECT_EQ(report.complete(), stage.cells.empty());
  }
}

TEST(Renderers, ArePureFunctionsOfTheLedger) {
  const LedgerData data = synthetic_ledger(full_plan());
  EXPECT_EQ(render_html(judge_results(data)), render_html(judge_results(data)));
  EXPECT_EQ(render_json(judge_results(data)), render_json(judge_results(data)));
}

} // namespace
} // namespace assay
