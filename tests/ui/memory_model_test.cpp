// The memory of the screen "Compare": bytes over a step and what they are at the peak.
#include "ui/model/results/memory_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/ledger/memory_parts.h"
#include "experiments/demo/synthetic_ledger.h"
#include "tests/synthetic_cells.h"
#include "tests/ui/sample_ledger.h"
#include "tests/ui/support.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"
#include "ui/window/script.h"

namespace assay {
namespace memory_model_test {

using synthetic::synthetic_ledger;
using synthetic::SyntheticCell;
using synthetic::SyntheticPlan;
using test::Canvas;
using test::count_of;

LedgerData measured(bool parts = true) {
  SyntheticCell cell = synthetic::two_level_cell(-0.1);
  cell.levels[1].memory_ratio = 1.5;
  SyntheticPlan plan;
  plan.cells = {cell};
  plan.memory_parts = parts;
  return synthetic_ledger(plan);
}

TEST(MemoryModel, ItsCurveEndsAtTheAllocatorsPeak) {
  const Workspace workspace = test::comparing(measured());
  ASSERT_NE(workspace.memory(), nullptr);
  const MemoryModel& model = *workspace.memory();
  const MemoryEffect& memory = *workspace.comparison()->memory;
  const double unit = model.unit == "GiB" ? 1 << 30 : 1 << 20;
  EXPECT_NEAR(std::ranges::max(model.sides[0].used) * unit, memory.a_bytes, 1);
  EXPECT_NEAR(std::ranges::max(model.sides[1].used) * unit, memory.b_bytes, 1);
  EXPECT_GT(model.used, std::ranges::max(model.sides[1].used));
  EXPECT_EQ(model.ms, 40);
  EXPECT_NE(model.sides[1].words.find("20 ms into the step, in forward"), std::string::npos)
      << model.sides[1].words;
  EXPECT_EQ(model.phases.rows.size(), 4U);
}

TEST(MemoryPane, IsReachedByKeyAndClick) {
  Workspace workspace = test::comparing(measured());
  const Canvas canvas(1400, 900);
  const Result<int> played = run_script(workspace,
                                        *canvas.backend,
                                        "click pane.memory\nexpect model.pane=memory\n"
                                        "key C\nexpect model.pane=stages\n",
                                        "memory");
  ASSERT_TRUE(played) << played.error().message;
}

TEST(MemoryPane, DrawsBothVariantsInTheirColours) {
  Workspace workspace = test::comparing(measured());
  for (const ThemeKind theme : {ThemeKind::Dark, ThemeKind::Light}) {
    const Palette& colors = palette(theme);
    workspace.theme = theme;
    workspace.pane = ComparePane::Memory;
    const Image memory = Canvas(1280, 800).draw(workspace);
    workspace.pane = ComparePane::Stages;
    const Image stages = Canvas(1280, 800).draw(workspace);
    for (const Color color : {colors.reference, colors.level})
      EXPECT_GT(count_of(memory, color), count_of(stages, color) + 200);
  }
}

TEST(MemoryPane, OlderResultsSayWhatTheyLack) {
  LedgerData data = measured();
  std::erase_if(data.metrics, [](const MetricRow& row) { return row.path == kMemoryCurveMetric; });
  Workspace workspace = test::comparing(data);
  ASSERT_NE(workspace.memory(), nullptr);
  EXPECT_NE(workspace.memory()->why_no_curve, "");
  workspace.pane = ComparePane::Memory;
  EXPECT_GT(test::colors_in(Canvas(900, 640).draw(workspace)), 20U);
  EXPECT_EQ(test::comparing(measured(false)).memory(), nullptr);
}

} // namespace memory_model_test
} // namespace assay
