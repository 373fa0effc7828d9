#include "experiments/report/section.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "experiments/analysis/report_lines.h"
#include "experiments/analysis/wording.h"
#include "experiments/report/sections/list.h"
#include "tests/names.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace report_sections_test {

using synthetic::full_plan;
using synthetic::synthetic_ledger;
using synthetic::SyntheticPlan;
using testing::HasSubstr;
using testing::Not;

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

TEST(Claims, TheColumnOfReasonsIsThereWhereOneIs) {
  SyntheticPlan plan;
  plan.noise = 0.005;
  plan.cells = {synthetic::two_level_cell(-0.1)};
  const auto columns = [&](double lo, double hi) {
    plan.claims = {synthetic::step_time_claim(lo, hi)};
    const Section section = claims_section(judge_results(synthetic_ledger(plan)));
    EXPECT_EQ(section.rows.at(0).texts.size(), section.columns.size());
    return section.columns.size();
  };
  EXPECT_EQ(columns(0.05, 0.15), 5U) << "confirmed";
  EXPECT_EQ(columns(0.20, 0.30), 6U) << "falls short";
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

} // namespace report_sections_test
} // namespace assay
