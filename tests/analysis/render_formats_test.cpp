#include "experiments/report/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "experiments/analysis/wording.h"
#include "experiments/report/html/svg.h"
#include "experiments/report/html/svg_marks.h"
#include "tests/paths.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace render_formats_test {

using synthetic::full_plan;
using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kMarkup = "<script>alert(\"x\")</script> & 'y'";

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

TEST(RenderJson, ParsesAndCarriesTheFigures) {
  const Report report = judge_results(synthetic_ledger(full_plan()));
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json["schema_version"], 5);
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
  const std::string csv = render_csv(judge_results(data), data);
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

TEST(RenderHtml, LabelsStayInsideTheirPicture) {
  const std::string level = "phase_1+phase_2+phase_3";
  ForestRow row;
  row.label = "phase_1+phase_2 → " + level;
  row.cell = "a_cell_whose_name_is_wider_than_the_room_beside_its_axis_has";
  row.point = -0.4;
  row.interval = Interval{-0.7, 0.7};
  const std::string wide = forest_svg({row}, PlotShape::Wide);
  EXPECT_THAT(wide, HasSubstr(level + "</text>")) << "the axis makes room";
  EXPECT_THAT(wide, HasSubstr("…<title>" + row.cell + "</title></text>"));
  const std::string narrow = forest_svg({row}, PlotShape::Narrow);
  EXPECT_THAT(narrow, HasSubstr("…<title>" + row.cell + ": " + row.label + "</title></text>"));
  const std::regex tick("x=\"([0-9.]+)\" y=\"[0-9.]+\" text-anchor=\"middle\">([^<]+)<");
  const auto ticks = std::sregex_iterator(narrow.begin(), narrow.end(), tick);
  ASSERT_NE(ticks, std::sregex_iterator());
  for (auto one = ticks; one != std::sregex_iterator(); ++one) {
    const double x = std::stod((*one)[1]), half = text_width("small", (*one)[2]) / 2;
    EXPECT_GE(x - half, -0.1) << (*one)[2];
    EXPECT_LE(x + half, 360.1) << (*one)[2];
  }
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
    EXPECT_FALSE(render_csv(report, stage).empty());
    EXPECT_EQ(report.complete(), stage.cells.empty());
  }
}

TEST(Renderers, ArePureFunctionsOfTheLedger) {
  const LedgerData data = synthetic_ledger(full_plan());
  EXPECT_EQ(render_html(judge_results(data)), render_html(judge_results(data)));
  EXPECT_EQ(render_json(judge_results(data)), render_json(judge_results(data)));
}

} // namespace render_formats_test
} // namespace assay
