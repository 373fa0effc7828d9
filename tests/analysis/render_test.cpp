#include "experiments/report/render.h"
#include "experiments/report/text_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"

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

TEST(DisplayText, ABoundBelowZeroKeepsItsSign) {
  const auto of = [](double lower, double upper) {
    return interval_text(Interval{std::log1p(lower), std::log1p(upper)});
  };
  EXPECT_EQ(of(-0.0004, 0.105), "[-0.0, +10.5] %");
  EXPECT_EQ(of(0.0004, 0.105), "[+0.0, +10.5] %");
  EXPECT_EQ(of(-0.105, -0.0004), "[-10.5, -0.0] %");
  EXPECT_EQ(of(0, 0.105), "[+0.0, +10.5] %");
  EXPECT_EQ(change_text(-1e-6), "+0.00 %") << "an estimate has no side to tell";
}

TEST(RenderTable, FitsTheTerminalAndSaysEverything) {
  const Report report = analyze(synthetic_ledger(full_plan()));
  for (const int width : {100, 80, 60}) {
    std::istringstream lines(
        render_table(report, {.width = width, .unicode = true, .color = false}));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(width_of(line), static_cast<std::size_t>(width)) << line;
      EXPECT_EQ(std::count(line.begin(), line.end(), '['),
                std::count(line.begin(), line.end(), ']'))
          << "an interval is not split: " << line;
      EXPECT_FALSE(line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with('%'))
          << "nor parted from its unit: " << line;
    }
  }
  const std::string text = render_table(report, {});
  for (const char* word : {"ema_swap",
                           "fast vs slow",
                           "FASTER",
                           "claim confirmed",
                           "-9.",
                           "-20.0 %",
                           "MDE",
                           "A/A control",
                           "claim-1",
                           "8 to 12 % less",
                           "end to end",
                           "by CUDA events",
                           "alarms",
                           "excluded"})
    EXPECT_THAT(text, HasSubstr(word));
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
  const Report report = analyze(data);
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
  EXPECT_THAT(render_table(analyze(data), {}), Not(HasSubstr("\x1b")));
}

TEST(RenderJson, ParsesAndCarriesTheFigures) {
  const Report report = analyze(synthetic_ledger(full_plan()));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json["schema_version"], 1);
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
  const auto json = nlohmann::json::parse(render_json(analyze(data)));
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
  const std::string html = render_html(analyze(poisoned()));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html,
              HasSubstr("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;y&#39;"));
  EXPECT_THAT(render_markdown(analyze(poisoned())), Not(HasSubstr("<script")));
}

TEST(RenderHtml, IsSelfContained) {
  const std::string html = render_html(analyze(synthetic_ledger(full_plan())));
  for (const char* external :
       {"http://", "https://", "src=", "href=", "@import", "url(", "<script"})
    EXPECT_THAT(html, Not(HasSubstr(external)));
  for (const char* part : {"<svg",
                           "class=\"claimed\"",
                           "class=\"band\"",
                           "prefers-color-scheme:dark",
                           "Provenance",
                           "A/A control",
                           "class=\"excluded\""})
    EXPECT_THAT(html, HasSubstr(part));
  for (const char* not_a_number : {">nan", "\"nan", " nan", ">inf", "\"inf"})
    EXPECT_THAT(html, Not(HasSubstr(not_a_number)));
}

TEST(RenderMarkdown, ColumnsSurviveNames) {
  LedgerData data = synthetic_ledger(full_plan());
  data.cells[0].name = "a|b\nc";
  const std::string text = render_markdown(analyze(data));
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
    const Report report = analyze(stage);
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
  EXPECT_EQ(render_html(analyze(data)), render_html(analyze(data)));
  EXPECT_EQ(render_json(analyze(data)), render_json(analyze(data)));
}

} // namespace
} // namespace assay
