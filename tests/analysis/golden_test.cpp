// The wording of each renderer, whole, against the files in golden/. Other tests assert codes and
// figures, so that a sentence is changed in one place: set ASSAY_UPDATE_GOLDEN=1, run this test and
// read the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "experiments/analysis/report.h"
#include "experiments/demo/synthetic_ledger.h"
#include "experiments/report/render.h"
#include "experiments/report/render_explain.h"
#include "tests/paths.h"
#include "tests/synthetic_cells.h"
#include "tests/synthetic_design.h"

namespace assay {
namespace golden_test {

using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;

DiffRow row(const char* name, const char* kernel_class, double a_ns, double b_ns) {
  DiffRow row;
  row.name = row.short_name = name;
  row.kernel_class = kernel_class;
  row.stage = Stage::Forward;
  row.calls_a = 12;
  row.calls_b = 24;
  row.a_ns = a_ns;
  row.b_ns = b_ns;
  row.delta_ns = b_ns - a_ns;
  row.interval = Interval{row.delta_ns - 1e5, row.delta_ns + 1e5};
  row.status = DiffStatus::Faster;
  return row;
}

Explanation explanation() {
  Explanation result;
  result.traced_as = "device";
  Waterfall& waterfall = result.waterfall;
  waterfall.a_ns = 10e6;
  waterfall.b_ns = 8e6;
  waterfall.stages = {{Stage::Forward, 6e6, 4.5e6, -1.5e6, Interval{-1.6e6, -1.4e6}, true},
                      {Stage::Backward, 4e6, 3.5e6, -0.5e6, Interval{-1.1e6, 0.1e6}, false}};
  waterfall.traced_interval = Interval{-2.5e6, -1.5e6};
  waterfall.pairs = 30;
  waterfall.timed_a_ns = 10e6;
  waterfall.timed_delta_ns = -1.9e6;
  waterfall.residual_ns = 0.1e6;
  waterfall.residual_share = 0.01;
  waterfall.allowed_share = 0.02;
  waterfall.closed = true;
  result.kernels = {
      row("flash_fwd_kernel", "attention", 2e6, 1e6),
      row("elementwise_kernel_with_a_long_name_that_matters", "elementwise", 9e5, 8e5)};
  result.kernels[1].status = DiffStatus::Unclear;
  result.operators = {row("aten::mm", "gemm", 3e6, 2.5e6)};
  return result;
}

// Decided, undecided, rejected and disturbed comparisons, and claims that apply and do not.
Report golden_report() {
  SyntheticPlan plan;
  plan.name = "golden";
  plan.noise = 0.02;
  plan.rounds = 8;
  SyntheticCell step = synthetic::two_level_cell(-0.1);
  step.levels[1].memory_ratio = 0.8;
  SyntheticCell undecided = synthetic::two_level_cell(0);
  undecided.name = "undecided";
  undecided.noise = 0.2;
  SyntheticCell rejected = synthetic::two_level_cell(-0.1);
  rejected.name = "rejected";
  rejected.levels[1].gate_passes = false;
  SyntheticCell disturbed = synthetic::two_level_cell(-0.1);
  disturbed.name = "disturbed";
  disturbed.disturbed_share = 1;
  plan.cells = {step, undecided, rejected, disturbed};
  ClaimRow elsewhere = synthetic::step_time_claim(0.1, 0.2);
  elsewhere.id = "claim-2";
  elsewhere.requires_json = R"({"device":"cuda","preset":"base"})";
  plan.claims = {synthetic::step_time_claim(0.08, 0.12), elsewhere};
  Report report = judge_results(synthetic::synthetic_ledger(synthetic::of_a_trainer(plan)));
  report.cells[0].comparisons[0].explanation = explanation();
  return report;
}

// A ladder whose two steps interact, one whose steps add up, and one that is undecided.
Report ladder_report() {
  SyntheticPlan plan;
  plan.name = "ladder";
  plan.noise = 0.004;
  plan.tail_share = 0;
  plan.rounds = 12;
  const auto ladder = [&](const char* name, double interaction, double noise) {
    SyntheticCell cell = synthetic::design_cell(
        Design::Ladder, {{"amp", -0.1}, {"norm", -0.05}, {"graph", -0.02}}, interaction);
    cell.name = cell.optimization = name;
    cell.noise = noise;
    plan.cells.push_back(std::move(cell));
  };
  ladder("phases", 0.02, 0.004);
  ladder("apart", 0, 0.002);
  ladder("noisy", 0, 0.2);
  plan.cells.push_back(
      synthetic::design_cell(Design::Factorial, {{"clip", 0.03}, {"fuse", -0.2}}, 0.05));
  plan.cells.back().name = plan.cells.back().optimization = "both";
  return judge_results(synthetic::synthetic_ledger(synthetic::of_a_trainer(plan)));
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = test::source_dir() + "/tests/analysis/golden/" + name;
  if (std::getenv("ASSAY_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream file(path, std::ios::binary);
  const std::string expected{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text, expected) << path;
}

TEST(Golden, Table) {
  expect_golden("report.txt", render_table(golden_report(), {}));
}

TEST(Golden, TableInFull) {
  expect_golden("report_verbose.txt",
                render_table(golden_report(),
                             {.width = 80, .unicode = true, .color = false},
                             {.cell = "", .verbose = true}));
}

TEST(Golden, Markdown) {
  expect_golden("report.md", render_markdown(golden_report()));
}

TEST(Golden, Page) {
  expect_golden("report.html", render_html(golden_report()));
}

TEST(Golden, Ladder) {
  expect_golden("ladder.txt", render_table(ladder_report(), {}));
}

TEST(Golden, LadderMarkdown) {
  expect_golden("ladder.md", render_markdown(ladder_report()));
}

TEST(Golden, Explain) {
  expect_golden("explain.txt", render_explain_table(golden_report(), {0, 0}, 10, {}));
}

TEST(Golden, ExplainNarrow) {
  expect_golden("explain_60.txt",
                render_explain_table(
                    golden_report(), {0, 0}, 10, {.width = 60, .unicode = true, .color = false}));
}

} // namespace golden_test
} // namespace assay
