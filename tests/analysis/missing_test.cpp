// What a results directory still owes, and launches that were measured again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "experiments/analysis/explanations.h"
#include "experiments/analysis/partial_launches.h"
#include "experiments/analysis/report.h"
#include "experiments/analysis/wording.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/evidence/owed/continuation.h"
#include "experiments/evidence/owed/plan_state.h"
#include "experiments/evidence/owed/redo.h"
#include "experiments/report/render.h"
#include "tests/analysis/synthetic_report.h"
#include "tests/names.h"
#include "tests/scratch.h"
#include "tests/synthetic_cells.h"

namespace assay {
namespace missing_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::two_level_cell;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// `assay status`, the runner and the report read one rule: nothing is owed that no run would make.
TEST(Missing, ABlockedCellOwesNothingAndAFailedLaunchIsOwed) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  std::erase_if(data.launches, [](const LaunchRow& launch) {
    return launch.kind == LaunchKind::Timed && launch.index > 1;
  });
  EXPECT_THAT(judge_results(data).missing, ElementsAre("ema_swap: 4 of 5 timed launches"));
  LedgerData failed = data;
  LaunchRow* timed = nullptr;
  for (LaunchRow& launch : failed.launches)
    if (launch.kind == LaunchKind::Timed) timed = &launch;
  timed->state = LaunchState::Failed;
  LaunchRow again = *timed;
  again.id = 1000;
  again.attempt = 1;
  failed.launches.push_back(again);
  EXPECT_THAT(judge_results(failed).missing,
              ElementsAre("ema_swap: 5 of 5 timed launches (1 failed)"));
  EXPECT_EQ(plan_progress(failed).complete(), judge_results(failed).complete());
  for (GateRow& gate : data.gates)
    if (gate.variant == 2) gate.passed = false; // the only level is not timed
  const Report blocked = judge_results(data);
  EXPECT_EQ(first(blocked).verdict.validity, Validity::ParityFailed);
  EXPECT_TRUE(blocked.complete()) << blocked.missing.at(0);
  EXPECT_TRUE(plan_progress(data).complete());
}

// A launch that a person asked to measure again is owed until a later one takes its place, and is
// then counted beside the verdict.
TEST(Missing, ALaunchThatIsMeasuredAgainIsOwedAndThenCounted) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  const auto timed = std::find_if(data.launches.begin(), data.launches.end(), [](const auto& row) {
    return row.kind == LaunchKind::Timed && row.index == 2;
  });
  EventRow redo;
  redo.launch = timed->id;
  redo.kind = "redo";
  data.events.push_back(redo);
  EXPECT_THAT(judge_results(data).missing,
              ElementsAre("ema_swap: 1 of 5 timed launches (1 to be measured again)"));
  EXPECT_EQ(repeated_line(judge_results(data).cells[0]), "");
  LaunchRow again = *timed;
  again.id = 1000;
  again.attempt = 1;
  again.repeats = timed->id;
  data.launches.push_back(again);
  const Report report = judge_results(data);
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.cells[0].superseded_launches, 1);
  const std::string line = repeated_line(report.cells[0]);
  EXPECT_THAT(line, HasSubstr("1 timed launch"));
  EXPECT_FALSE(report.cells[0].redone_by_name);
  EXPECT_THAT(render_table(report, {}), HasSubstr("--redo"));
  EXPECT_THAT(render_html(report), HasSubstr(line));
  EXPECT_THAT(render_json(report), HasSubstr("\"launches_measured_again\": 1"));
  // A second time, since a person named the cell: of one launch two attempts count nowhere.
  redo.launch = again.id;
  redo.cause = kCauseAsked;
  data.events.push_back(redo);
  again.repeats = again.id;
  again.id = 1001, again.attempt = 2;
  data.launches.push_back(again);
  const CellReport cell = judge_results(data).cells[0];
  EXPECT_EQ(cell.superseded_launches, 1);
  EXPECT_EQ(cell.replaced_attempts, 2);
  EXPECT_TRUE(cell.redone_by_name);
  EXPECT_THAT(repeated_line(cell), HasSubstr("2 other attempts"));
  again.id = 1002, again.attempt = 3;
  again.state = LaunchState::Failed;
  data.launches.push_back(again);
  EXPECT_EQ(judge_results(data).cells[0].replaced_attempts, 3);
}

// Launches that ended early count with the rounds that they have, or are left out; both are told.
TEST(Missing, LaunchesThatEndedEarlyAreCounted) {
  LedgerData data = synthetic_ledger(plan_of(two_level_cell(-0.1)));
  EXPECT_EQ(partial_line(judge_results(data).cells[0]), "");
  const auto cut = [&](int index, int last, LaunchState state) {
    for (LaunchRow& launch : data.launches) {
      if (launch.kind != LaunchKind::Timed || launch.index != index) continue;
      launch.state = state;
      std::erase_if(data.visits, [&](const VisitRow& visit) {
        return visit.launch == launch.id && visit.round > last;
      });
    }
  };
  cut(2, 30, LaunchState::Partial);
  cut(3, 8, LaunchState::Failed);
  cut(4, 8, LaunchState::Failed);
  const Report report = judge_results(data);
  EXPECT_EQ(report.cells[0].partial.counted, 1);
  EXPECT_EQ(report.cells[0].partial.left_out, 2);
  EXPECT_EQ(first(report).pairs.launches.size(), 3u);
  const std::string line = partial_line(report.cells[0]);
  EXPECT_THAT(line, test::names("3 timed launches", "1 counts", "2 are left out"));
  EXPECT_THAT(render_html(report), HasSubstr(line));
  EXPECT_THAT(render_json(report), HasSubstr("\"launches_partial_left_out\": 2"));
}

// The table's row says all of it.
TEST(Missing, ACellThatWasNotMeasuredIsShownOnce) {
  synthetic::SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells.push_back(two_level_cell(-0.1));
  plan.cells[1].name = "later";
  LedgerData data = synthetic_ledger(plan);
  const std::int64_t cell = data.cells[1].id;
  std::set<std::int64_t> gone;
  for (const LaunchRow& launch : data.launches)
    if (launch.cell == cell) gone.insert(launch.id);
  const auto of_cell = [&](const auto& row) { return gone.contains(row.launch); };
  std::erase_if(data.launches, [&](const LaunchRow& row) { return row.cell == cell; });
  std::erase_if(data.visits, of_cell);
  std::erase_if(data.metrics, of_cell);
  std::erase_if(data.gates, of_cell);
  std::erase_if(data.events, of_cell);
  const Report report = judge_results(data);
  ASSERT_TRUE(is_untouched(report.cells[1].comparisons[0]));
  EXPECT_FALSE(is_untouched(report.cells[0].comparisons[0]));
  EXPECT_THAT(render_table(report, {}), Not(HasSubstr("Not measured yet: later")));
  EXPECT_THAT(render_markdown(report), test::names("| later |", "### ema\\_swap: "));
  EXPECT_THAT(render_markdown(report), Not(HasSubstr("### later")));
  EXPECT_THAT(render_html(report), Not(HasSubstr("<h3>later")));
}

// The command of the run itself, without what it asked for once.
SpecRow ran(const std::string& command, const std::string& matrix_toml = "") {
  SpecRow spec;
  spec.command = command;
  spec.matrix_toml = matrix_toml;
  return spec;
}

TEST(Redo, TheCommandIsTheRunsOwn) {
  EXPECT_EQ(redo_command(ran("assay run r1/matrix.toml --out r1")),
            "assay run r1/matrix.toml --out r1 --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay run m.toml --redo varlen --out r --fork --device cuda")),
            "assay run m.toml --out r --device cuda --redo disturbed");
  EXPECT_EQ(redo_command(ran("/opt/A run 'my matrix.toml' --out r --redo 'my cell' --quiet "
                             "--stop-after 9m --wait-for-quiet=4s")),
            "/opt/A run 'my matrix.toml' --out r --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay run - --out r")),
            "assay run - < MATRIX --out r --redo disturbed");
  // The matrix may stand behind the options.
  EXPECT_EQ(continue_command(ran("assay run --out r --ascii --set a=b m.toml"), "", "moved"),
            "assay run --out moved --ascii --set a=b MATRIX");
  const test::Scratch moved; // with the matrix that `assay ab` left beside the ledger
  moved.write("matrix.toml", "");
  const std::string here = moved.path().string();
  EXPECT_EQ(redo_command(ran("assay run gone/matrix.toml --out gone"), "", here),
            "assay run " + here + "/matrix.toml --out " + here + " --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay run m.toml --out r --cell a --cell=b"), "a b"),
            "assay run m.toml --out r --cell 'a b' --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay run m.toml --out r --cell a")),
            "assay run m.toml --out r --cell a --redo disturbed");
  EXPECT_EQ(continue_command(ran("assay run m.toml --cell a --out r --cell=b"), kAllCells),
            "assay run m.toml --out r");
  EXPECT_EQ(redo_command(ran("assay run m.toml --out r"), "", "", {"a b", "c"}),
            "assay run m.toml --out r --redo 'a b' --redo c");
  const std::string merged = "assay run m.toml --out r.a --cell a --quiet; "
                             "assay run m.toml --out r.b --cell b";
  EXPECT_EQ(redo_command(ran(merged), "b"), "assay run m.toml --out DIR --cell b --redo disturbed");
  EXPECT_EQ(redo_command(ran(merged)), "assay run m.toml --out DIR --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay run m.toml --out r --device cuda"), "", "copy of r"),
            "assay run MATRIX --out 'copy of r' --device cuda --redo disturbed");
  EXPECT_EQ(redo_command(ran("assay demo")), "assay run MATRIX --out DIR --redo disturbed");
}

// A file of the recorded name would measure something else unless it reads as what was measured.
TEST(Redo, TheMatrixIsTheFileThatReadsAsWhatWasMeasured) {
  const test::Scratch scratch;
  const auto path = [&](const std::string& name) { return (scratch.path() / name).string(); };
  std::filesystem::create_directories(scratch.path() / "r");
  const SpecRow spec = ran("assay run m.toml --out r", "# mine");
  EXPECT_EQ(continue_command(spec, "", path("r")), "assay run MATRIX --out " + path("r"));
  scratch.write("m.toml", "# another's");
  EXPECT_EQ(continue_command(spec, "", path("r")), "assay run MATRIX --out " + path("r"));
  scratch.write("m.toml", "# mine"); // above the results
  const std::string found = std::filesystem::proximate(path("m.toml")).string();
  EXPECT_EQ(continue_command(spec, "", path("r")), "assay run " + found + " --out " + path("r"));
  scratch.write("r/matrix.toml", "# mine");
  EXPECT_EQ(continue_command(spec, "", path("r")),
            "assay run " + path("r/matrix.toml") + " --out " + path("r"));
  EXPECT_EQ(continue_command(spec), "assay run m.toml --out r"); // as recorded
}

// A shell can read it again from where a run has left it.
TEST(Redo, AMatrixFromStandardInputComesFromItAgain) {
  const test::Scratch scratch;
  const std::string here = scratch.path().string();
  SpecRow spec = ran("assay run - --out r", "# mine");
  EXPECT_EQ(continue_command(spec, "", here), "assay run - < MATRIX --out " + here);
  const std::string kept = scratch.write("matrix.toml", "# mine");
  EXPECT_EQ(continue_command(spec, "", here), "assay run - < " + kept + " --out " + here);
  scratch.write("matrix.toml", "# another's");
  EXPECT_EQ(continue_command(spec, "", here), "assay run - < MATRIX --out " + here);
}

// Its matrix and its data may be named relative to there.
TEST(Redo, TheCommandGoesBackToWhereTheRunWasStarted) {
  const test::Scratch scratch;
  const std::string there = scratch.path().string(), go = "cd " + there + " && assay run ";
  scratch.write("m.toml", "# mine");
  SpecRow spec = ran("assay run m.toml --out ./r/ --data texts", "# mine");
  spec.directory = there;
  EXPECT_EQ(continue_command(spec), go + "m.toml --out ./r/ --data texts");
  EXPECT_EQ(continue_command(spec, "", there + "/moved"),
            go + "m.toml --out " + there + "/moved --data texts");
  scratch.write("m.toml", "# mine, with another comment");
  EXPECT_EQ(continue_command(spec, "", there + "/r"),
            go + "m.toml --out " + there + "/r --data texts");
  EXPECT_EQ(continue_command(spec, "", there + "/moved"),
            go + "MATRIX --out " + there + "/moved --data texts");
  std::filesystem::create_directories(scratch.path() / "moved");
  const std::string kept = scratch.write("moved/matrix.toml", "# mine");
  EXPECT_EQ(continue_command(spec, "", there + "/moved"),
            go + kept + " --out " + there + "/moved --data texts");
  spec.directory = std::filesystem::current_path().string();
  EXPECT_EQ(continue_command(spec), "assay run m.toml --out ./r/ --data texts");
  spec.directory = there + "/gone";
  EXPECT_EQ(continue_command(spec), "assay run m.toml --out ./r/ --data texts");
}

// A reader who has the report alone learns what to do.
TEST(Redo, AContendedReportBeginsWithTheNextAction) {
  synthetic::SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells[0].disturbed_share = 0.4;
  LedgerData data = synthetic_ledger(plan);
  data.spec.command = "assay run my.toml --out r1";
  data.spec.directory = "/"; // elsewhere: a report's bytes do not depend on where it is made
  const Report report = judge_results(data);
  ASSERT_EQ(first(report).verdict.validity, Validity::Contended);
  EXPECT_EQ(report.cells[0].disturbed_launches, 5);
  EXPECT_THAT(first(report).verdict.reasons.at(0).text,
              HasSubstr("`assay run my.toml --out r1 --redo disturbed`"));
  EXPECT_THAT(render_html(report), test::names("my.toml --out r1", "r1 --redo disturbed"));
  EXPECT_EQ(redo_events(data, {{kCauseDisturbed}, {}}).size(), 5U);
  const Report quiet = judge_results(synthetic_ledger(plan_of(two_level_cell(-0.1))));
  EXPECT_EQ(quiet.cells[0].disturbed_launches, 0);
  EXPECT_FALSE(has_reason(first(quiet).verdict, ReasonCode::PairsDisturbed));
}

// It measures the whole cell again, whichever comparison is in doubt.
TEST(Redo, ACellNamesItsCommandOnce) {
  SyntheticCell cell = two_level_cell(-0.1);
  cell.levels.push_back({.name = "faster", .effect = -0.2});
  cell.disturbed_share = 0.4;
  const Report report = judge_results(synthetic_ledger(plan_of(cell)));
  ASSERT_EQ(report.cells[0].comparisons[1].verdict.validity, Validity::Contended);
  const std::string text = render_table(report, {});
  const std::size_t first = text.find("--redo");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("--redo", first + 1), std::string::npos) << text;
}

// What a run would refuse is not advised, and the reason is given.
TEST(Redo, OldResultsAreNotAdvisedToBeContinued) {
  synthetic::SyntheticPlan plan = plan_of(two_level_cell(-0.1));
  plan.cells[0].disturbed_share = 0.4;
  LedgerData data = synthetic_ledger(plan);
  EXPECT_EQ(why_not_continued(data, ""), "");
  EXPECT_EQ(why_not_continued(data, measured_build(data)), "");
  EXPECT_THAT(why_not_continued(data, "other"), test::names(measured_build(data), "other"));
  data.spec.schema = kLedgerSchema - 1;
  EXPECT_NE(why_not_continued(data, measured_build(data)), "");
  const Report report = judge_results(data);
  ASSERT_EQ(first(report).verdict.validity, Validity::Contended);
  const std::string reason = first(report).verdict.reasons.at(0).text;
  EXPECT_THAT(reason, HasSubstr(fmt::format("schema {}", kLedgerSchema - 1)));
  EXPECT_THAT(reason, Not(HasSubstr("--redo")));
  data.cells[0].traced_rounds = 3;
  std::erase_if(data.launches,
                [](const LaunchRow& launch) { return launch.kind == LaunchKind::Traced; });
  EXPECT_THAT(why_no_trace(data, data.cells[0].id), Not(HasSubstr("assay status")));
  data.spec.schema = kLedgerSchema;
  EXPECT_THAT(why_no_trace(data, data.cells[0].id), HasSubstr("assay status"));
  for (const VariantRow& variant : data.variants)
    if (variant.cell == data.cells[0].id && variant.role == Role::Level)
      data.gates.push_back({data.launches.at(0).id, variant.id, "math/weights", false, 1, 0, ""});
  EXPECT_THAT(why_no_trace(data, data.cells[0].id),
              test::names("no trace was recorded", "no level beside the baseline"));
}

} // namespace missing_test
} // namespace assay
