// The training losses of the screen "Compare": the report's figures, in every state.
#include "ui/model/results/loss_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/synthetic_cells.h"
#include "tests/ui/sample_ledger.h"
#include "tests/ui/support.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"
#include "ui/window/script.h"

namespace assay {
namespace loss_model_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using test::Canvas;
using test::count_of;

// One cell with loss launches; "fast" ends `shift` higher than "slow".
LedgerData trained(double shift, int nan_in_seed = 0) {
  SyntheticCell cell = synthetic::two_level_cell(-0.1);
  cell.equivalence = "statistical";
  cell.loss_seeds = 4;
  cell.levels[1].loss_shift = shift;
  cell.levels[1].loss_sd = 0.002;
  cell.levels[1].nan_in_seed = nan_in_seed;
  SyntheticPlan plan;
  plan.cells = {cell};
  return synthetic_ledger(plan);
}

TEST(LossModel, SaysWhatTheReportSays) {
  const Workspace workspace = test::comparing(trained(0.004));
  ASSERT_NE(workspace.loss(), nullptr);
  const LossModel& model = *workspace.loss();
  const LossTest& test = *workspace.comparison()->loss;
  EXPECT_EQ(model.words, printable(loss_text(test)));
  EXPECT_EQ(model.badge, "EQUIVALENT");
  EXPECT_EQ(model.tone, Tone::Good);
  EXPECT_EQ(model.margin, 0.02);
  ASSERT_TRUE(model.interval);
  EXPECT_EQ(model.interval->lower, test.result.test->interval.lower);
  EXPECT_EQ(model.sides[0].seeds, model.sides[1].seeds); // paired
  ASSERT_EQ(model.sides[1].curves.size(), 4U);
  EXPECT_EQ(model.sides[1].curves[2].loss, workspace.cell()->loss_curves[6].loss);
}

// The drawn line ends where the test's difference is: they cannot be two computations.
TEST(LossModel, TheDifferenceEndsInTheTestsMean) {
  const Workspace workspace = test::comparing(trained(0.004));
  const LossModel& model = *workspace.loss();
  double sum = 0;
  std::size_t judged = 0;
  for (std::size_t i = 0; i < model.difference.loss.size(); ++i)
    if (model.difference.step[i] >= model.judged_from) {
      sum += model.difference.loss[i];
      ++judged;
    }
  EXPECT_EQ(judged, final_visits(model.difference.loss.size()));
  EXPECT_NEAR(sum / static_cast<double>(judged), *model.final_difference, 1e-12);
}

TEST(LossModel, TheAxesHoldCurvesMarginAndInterval) {
  for (const double shift : {0.0, 0.3}) {
    const Workspace workspace = test::comparing(trained(shift));
    const LossModel& model = *workspace.loss();
    EXPECT_GT(model.differences.high, std::max(model.margin, model.interval->upper));
    EXPECT_EQ(model.differences.low, -model.differences.high);
    for (const LossSide& side : model.sides)
      for (const LossLine& curve : side.curves)
        for (const double loss : curve.loss) {
          EXPECT_GT(loss, model.losses.low);
          EXPECT_LT(loss, model.losses.high);
        }
  }
}

TEST(LossModel, TheLevelOfItsIntervalIsThatOfTheTest) {
  LedgerData data = trained(0);
  EXPECT_EQ(test::comparing(data).loss()->interval_level, "90 %");
  const std::int64_t cell = data.cells[0].id;
  CellRow second = data.cells[0]; // a second cell with loss tests: they share alpha
  second.id = cell + 1;
  second.name = "second";
  data.cells.push_back(second);
  const std::vector<VariantRow> variants = data.variants;
  for (VariantRow variant : variants) {
    variant.id += 1000;
    variant.cell = second.id;
    data.variants.push_back(variant);
  }
  EXPECT_EQ(test::comparing(data).loss()->interval_level, "95 %");
}

TEST(LossModel, ALostLossIsHarmWithoutAnInterval) {
  const Workspace workspace = test::comparing(trained(0, 2));
  const LossModel& model = *workspace.loss();
  EXPECT_EQ(model.badge, "HARMED");
  EXPECT_EQ(model.tone, Tone::Bad);
  EXPECT_FALSE(model.interval);
  EXPECT_NE(model.words.find("not finite"), std::string::npos) << model.words;
  EXPECT_LT(model.sides[1].mean.loss.size(), model.sides[0].mean.loss.size()); // one seed ended
  EXPECT_TRUE(std::isfinite(model.differences.high));
  EXPECT_TRUE(to_json(model)["interval"].is_null());
  EXPECT_EQ(model.interval_level, "");
}

TEST(LossModel, PlannedButNotTrainedYetSaysSo) {
  LedgerData data = trained(0);
  std::erase_if(data.launches, [](const auto& row) { return row.kind == LaunchKind::Loss; });
  Workspace workspace = test::comparing(data);
  ASSERT_NE(workspace.loss(), nullptr);
  EXPECT_EQ(workspace.loss()->why_none, "No loss launch is complete yet: 0 of 4 seeds.");
  EXPECT_EQ(workspace.loss()->badge, "UNKNOWN");
  EXPECT_GT(test::colors_in(Canvas(900, 640).draw(workspace)), 20U);
}

TEST(LossPane, CellsWithoutLossLaunchesShowNothingOfIt) {
  Workspace workspace = test::comparing(finished());
  EXPECT_EQ(workspace.loss(), nullptr);
  for (const ComparePane pane : compare_panes(workspace)) EXPECT_NE(pane, ComparePane::Loss);
  workspace.pane = ComparePane::Loss; // chosen on another row
  EXPECT_NE(shown_pane(workspace), ComparePane::Loss);
  EXPECT_TRUE(window_model(workspace)["model"]["loss"].is_null());
}

TEST(LossPane, IsReachedByKeyClickAndShownFirstWithoutTraces) {
  Workspace workspace = test::comparing(trained(0));
  EXPECT_EQ(shown_pane(workspace), ComparePane::Loss); // no trace is planned
  const Canvas canvas(1400, 900);
  const Result<int> played =
      run_script(workspace,
                 *canvas.backend,
                 "expect model.pane=loss\nexpect model.loss.badge=EQUIVALENT\n"
                 "key C\nexpect model.pane=stages\n"
                 "click pane.loss\nexpect model.pane=loss\n"
                 "run compare.pane\nexpect model.pane=stages\n",
                 "loss");
  ASSERT_TRUE(played) << played.error().message;
}

TEST(LossPane, DrawsBothVariantsInTheirColours) {
  for (const ThemeKind theme : {ThemeKind::Dark, ThemeKind::Light}) {
    const Palette& colors = palette(theme);
    Workspace workspace = test::comparing(trained(0));
    workspace.theme = theme;
    const Image losses = Canvas(1280, 800).draw(workspace);
    workspace.pane = ComparePane::Stages;
    const Image stages = Canvas(1280, 800).draw(workspace);
    for (const Color color : {colors.reference, colors.level})
      EXPECT_GT(count_of(losses, color), count_of(stages, color) + 200);
  }
}

TEST(LossPane, SurvivesRandomCommandsAtEverySize) {
  for (const auto& [width, height] : {std::pair{240, 200}, {1280, 800}}) {
    const Canvas canvas(width, height);
    Workspace workspace = test::comparing(trained(0, 2));
    run_random_commands(workspace, *canvas.backend, 300, 11);
    for (const float scale : {0.75F, 3.0F}) {
      workspace = test::comparing(trained(0));
      workspace.scale = scale;
      EXPECT_GT(test::colors_in(canvas.draw(workspace)), 5U);
    }
  }
}

} // namespace loss_model_test
} // namespace assay
