// The whole window, drawn without a display: colours are where they mean something; keys and clicks
// reach the workspace.
#include "ui/window/main_window.h"

#include <gtest/gtest.h>

#include <set>

#include "imgui.h"
#include "tests/ui/sample_ledger.h"
#include "tests/ui/support.h"
#include "ui/style/trace_colors.h"
#include "ui/window/commands.h"

namespace assay {
namespace viewer_test {

using test::Canvas;
using test::count_of;
using test::results_of;

Workspace sample(const SamplePlan& plan = {}) {
  Workspace workspace;
  workspace.path = "sample";
  workspace.screen = ScreenId::Runs;
  workspace.results = results_of(finished(plan));
  return workspace;
}

Image picture_of(Workspace workspace) {
  return Canvas(1600, 900).draw(workspace);
}

TEST(Viewer, BadgesAndBarsShowTheirColours) {
  const Palette& dark = palette(ThemeKind::Dark);
  const Image faster = picture_of(sample());
  EXPECT_GT(count_of(faster, dark.good), 500U);  // a badge
  EXPECT_GT(count_of(faster, dark.claim), 200U); // claimed range
  SamplePlan slow;
  slow.varlen = 0.1;
  const Image slower = picture_of(sample(slow));
  EXPECT_EQ(count_of(slower, dark.good), 0U);
  EXPECT_GT(count_of(slower, dark.bad), 500U);
}

TEST(Viewer, NoticesReplaceTheScreen) {
  const Palette& dark = palette(ThemeKind::Dark);
  Workspace workspace;
  workspace.path = "sample";
  workspace.screen = ScreenId::Runs;
  const Image reading = picture_of(workspace);
  EXPECT_EQ(count_of(reading, dark.bad), 0U);
  workspace.open_error = "sample: no ledger";
  EXPECT_GT(count_of(picture_of(workspace), dark.bad), 20U);
  workspace.open_error.clear();
  workspace.results = results_of(planned_only());
  EXPECT_EQ(count_of(picture_of(workspace), dark.bad), 0U);
}

TEST(Viewer, KeysMoveTheSelectionAndScaleTheText) {
  const Canvas canvas;
  Workspace workspace = sample();
  canvas.draw(workspace);
  const auto press = [&](std::initializer_list<ImGuiKey> keys) {
    for (const ImGuiKey key : keys) ImGui::GetIO().AddKeyEvent(key, true);
    canvas.draw(workspace);
    for (const ImGuiKey key : keys) ImGui::GetIO().AddKeyEvent(key, false);
    canvas.draw(workspace);
  };
  press({ImGuiKey_DownArrow});
  EXPECT_EQ(workspace.row, 1U);
  press({ImGuiKey_UpArrow});
  EXPECT_EQ(workspace.row, 0U);
  press({ImGuiMod_Ctrl, ImGuiKey_Equal});
  EXPECT_GT(workspace.scale, 1);
  press({ImGuiMod_Ctrl, ImGuiKey_0});
  EXPECT_EQ(workspace.scale, 1);
  press({ImGuiMod_Shift, ImGuiKey_Slash});
  EXPECT_TRUE(workspace.help);
  press({ImGuiKey_Escape});
  EXPECT_FALSE(workspace.help);
  press({ImGuiMod_Ctrl, ImGuiKey_T});
  EXPECT_EQ(workspace.theme, ThemeKind::Light);
  EXPECT_FALSE(workspace.quit);
  press({ImGuiMod_Ctrl, ImGuiKey_Q});
  EXPECT_TRUE(workspace.quit);
}

TEST(Viewer, AClickSelectsItsRow) {
  const Canvas canvas(1600, 900);
  Workspace workspace = sample();
  canvas.draw(workspace);
  ImGuiIO& io = ImGui::GetIO();
  std::set<std::size_t> reached;
  const auto target = [&](const std::string& id) {
    for (const Target& candidate : workspace.targets)
      if (candidate.id == id) return candidate;
    throw std::runtime_error("not on the screen: " + id);
  };
  for (const char* const id : {"runs.row.1", "runs.row.0"}) {
    const Target at = target(id);
    io.AddMousePosEvent(at.x, at.y);
    canvas.draw(workspace);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
    canvas.draw(workspace, 1);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
    canvas.draw(workspace, 1);
    EXPECT_EQ(workspace.row, std::string(id) == "runs.row.1" ? 1U : 0U);
    reached.insert(workspace.row);
  }
  EXPECT_EQ(reached, (std::set<std::size_t>{0, 1}));
}

TEST(Viewer, WhatIsDrawnIsDrawnAgainTheSameWay) {
  Workspace workspace = sample();
  workspace.scale = 2;
  EXPECT_EQ(picture_of(workspace).rgb, picture_of(workspace).rgb);
}

TEST(TraceColors, TextCanBeReadOnEveryColourOfATrace) {
  std::set<int> seen;
  for (std::size_t i = 0; i < kStages; ++i) {
    const Color color = stage_color(static_cast<Stage>(i));
    EXPECT_GE(contrast(readable_on(color), color), 4.5) << i;
    EXPECT_TRUE(seen.insert(color.r << 16 | color.g << 8 | color.b).second) << i;
    for (const ThemeKind theme : {ThemeKind::Dark, ThemeKind::Light})
      EXPECT_GE(contrast(color, palette(theme).window), 1.15) << i; // an area, with its name on it
  }
  for (std::size_t i = 0; i < kKernelClasses; ++i) {
    const Color color = kernel_color(static_cast<KernelClass>(i));
    EXPECT_GE(contrast(readable_on(color), color), 4.5) << i;
  }
}

TEST(Offscreen, ASizeThatCannotBeDrawnIsAnError) {
  const UiContext context;
  const auto backend = OffscreenBackend::create(1 << 20, 1 << 20);
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("framebuffer of this size"), std::string::npos)
      << backend.error().message;
}

} // namespace viewer_test
} // namespace assay
