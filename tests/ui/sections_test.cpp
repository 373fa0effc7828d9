// Every form shows every section: terminal, Markdown, page, report.json and the viewer.
#include "experiments/report/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/html/html_section.h"
#include "experiments/report/render.h"
#include "tests/synthetic_cells.h"
#include "tests/ui/support.h"
#include "ui/model/results/runs_model.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"

namespace assay {
namespace sections_test {

using nlohmann::ordered_json;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using testing::Contains;
using testing::HasSubstr;

// Two cells whose report has every section that a ledger can give.
LedgerData full_ledger() {
  SyntheticPlan plan;
  plan.noise = 0.02;
  SyntheticCell evaluation = synthetic::two_level_cell(-0.4);
  evaluation.name = "ema_swap/evaluation";
  evaluation.unit = "evaluation";
  SyntheticCell step = synthetic::two_level_cell(-0.1);
  step.disturbed_share = 0.02;
  plan.cells = {step, evaluation};
  plan.claims = {synthetic::step_time_claim(0.08, 0.12)};
  LedgerData data = synthetic::synthetic_ledger(plan);
  data.events.push_back({1, 0, "2026-01-28T10:11:12Z", "resumed", "an event"});
  return data;
}

Report full_report(const LedgerData& data) {
  Report report = judge_results(data);
  report.shape_warnings = {"a shape"};
  report.source_errors = {"a figure"};
  report.cells[0].contrasts = {
      {.row = {"a x b", "interaction", {}}, .reason = {ReasonCode::TooFewLaunches, "too few"}},
      {.row = {"a", "main_effect", {}}}};
  report.alarms = {{AlarmCode::Fallback, report.cells[0].cell.id, {}, "an alarm"}};
  report.missing = {"a launch"};
  report.cells[0].missing = {"a launch"};
  for (Comparison& comparison : report.cells[0].comparisons)
    comparison.a_ranks = comparison.b_ranks = {{1e6, std::nullopt}};
  return report;
}

struct Forms {
  explicit Forms(const Report& report)
      : json(ordered_json::parse(render_json(report))), html(render_html(report)),
        markdown(render_markdown(report)),
        table(render_table(report,
                           {.width = 400, .unicode = true, .color = false},
                           {.cell = "", .verbose = true})) {}
  ordered_json json;
  std::string html, markdown, table;
};

Workspace showing(const LedgerData& data, const Report& report) {
  Results results;
  results.directory = "sample";
  results.data = data;
  results.report = report;
  results.sections = run_sections(report);
  results.verdicts = verdict_model(data, report);
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell)
    results.places.push_back({cell, 0});
  Workspace workspace;
  workspace.path = "sample";
  workspace.screen = ScreenId::Runs;
  workspace.results = std::make_shared<const Results>(std::move(results));
  return workspace;
}

void expect_whole(const Section& section, const Forms& forms) {
  for (const SectionRow& row : section.rows) {
    EXPECT_EQ(row.texts.size(), std::max<std::size_t>(section.columns.size(), 1)) << section.id;
    for (const std::string& text : row.texts)
      EXPECT_THAT(forms.html, HasSubstr(html_text(text))) << section.id;
  }
}

TEST(Sections, EveryFormShowsEveryOne) {
  const LedgerData data = full_ledger();
  const Report report = full_report(data);
  const Forms forms(report);
  const ordered_json viewer = window_model(showing(data, report))["model"]["sections"];
  const std::vector<Section> sections = report_sections(report);
  ASSERT_EQ(sections.size(), 14U) << "those of kReportSections";
  ASSERT_EQ(forms.json["sections"].size(), sections.size());
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    EXPECT_EQ(forms.json["sections"][i], to_json(section));
    EXPECT_THAT(viewer, Contains(to_json(section)));
    expect_whole(section, forms);
    if (i == 0) continue; // the table of verdicts needs no heading
    EXPECT_THAT(forms.table, HasSubstr("\n" + section.title + "\n"));
    EXPECT_THAT(forms.html, HasSubstr(html_text(section.title)));
    EXPECT_EQ(forms.markdown.find("## " + section.title + "\n") != std::string::npos,
              section.depth != Depth::Record)
        << section.id;
  }
  for (const Section& section : {run_section(report), findings_section(report)})
    EXPECT_THAT(viewer, Contains(to_json(section)));
}

TEST(Sections, EveryFormShowsEveryOneOfAComparison) {
  const LedgerData data = full_ledger();
  const Report report = full_report(data);
  const Forms forms(report);
  const VerdictModel viewer = verdict_model(data, report);
  std::set<std::string> ids;
  for (std::size_t cell = 0; cell < report.cells.size(); ++cell) {
    ordered_json whole = ordered_json::array(), details = ordered_json::array();
    for (const Section& section : comparison_sections(report, cell, 0)) {
      ids.insert(section.id);
      whole.push_back(to_json(section));
      if (section.id != "roofline") details.push_back(to_json(section)); // has its own pane
      expect_whole(section, forms);
      if (section.depth == Depth::Main) continue; // below the verdict, without a heading
      EXPECT_THAT(forms.table, HasSubstr("\n  " + section.title + "\n"));
    }
    EXPECT_EQ(forms.json["cells"][cell]["comparisons"][0]["sections"], whole);
    ordered_json shown = ordered_json::array();
    for (const Section& section : viewer.rows[cell].details) shown.push_back(to_json(section));
    ASSERT_FALSE(shown.empty());
    EXPECT_EQ(shown.back()["id"], "launches"); // of the cell
    shown.erase(shown.size() - 1);
    EXPECT_EQ(shown, details);
  }
  EXPECT_THAT(ids, Contains("claims"));
  EXPECT_THAT(ids, Contains("excluded_pairs"));
}

// The part of a picture of 1000x700 to the right of the list of sections.
std::vector<std::uint8_t> beside_the_list(const Image& image) {
  std::vector<std::uint8_t> part;
  for (int y = 0; y < image.height; ++y) {
    const auto row = image.rgb.begin() + 3L * y * image.width;
    part.insert(part.end(), row + 3L * 400, row + 3L * image.width);
  }
  return part;
}

// Keys go through all of them, and each is drawn.
TEST(Sections, TheScreenRunsDrawsEveryOne) {
  const LedgerData data = full_ledger();
  Workspace workspace = showing(data, full_report(data));
  const std::vector<Section>& sections = workspace.results->sections;
  EXPECT_EQ(window_model(workspace)["model"]["section"], "launches");
  std::set<std::string> ids;
  std::set<std::vector<std::uint8_t>> pictures;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    find_command("runs.section")->run(workspace);
    const std::string id = window_model(workspace)["model"]["section"];
    ids.insert(id);
    pictures.insert(beside_the_list(test::Canvas(1000, 700).draw(workspace)));
    for (const Section& section : sections)
      EXPECT_TRUE(std::any_of(
          workspace.targets.begin(),
          workspace.targets.end(),
          [&](const Target& target) { return target.id == "runs.section." + section.id; }))
          << section.id;
  }
  EXPECT_EQ(workspace.section, "launches");
  EXPECT_EQ(ids.size(), sections.size());
  EXPECT_EQ(pictures.size(), sections.size());
  find_command("runs.section_back")->run(workspace);
  EXPECT_EQ(workspace.section, "claim_errors");
  workspace.section = "of other results";
  EXPECT_EQ(window_model(workspace)["model"]["section"], "launches");
}

} // namespace sections_test
} // namespace assay
