// The whole window, drawn without a display: pictures are not blank, repeat exactly and differ
// where they must; keys and clicks reach the workspace.
#include "ui/main_window.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "imgui.h"
#include "ui/backend_offscreen.h"
#include "ui/commands.h"
#include "ui/ui_context.h"
#include "ui/workspace.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

namespace assay {
namespace {

// Mesa keeps a few allocations of a closed display. They are no leaks of ours, and its library is
// unloaded by the time of the leak report, so that a suppression by name cannot match.
struct DriverLeaks {
#ifdef __SANITIZE_ADDRESS__
  DriverLeaks() {
    __lsan_disable();
  }
  ~DriverLeaks() {
    __lsan_enable();
  }
#endif
};

Workspace sample(int rows = 3) {
  Workspace workspace;
  workspace.model.name = "sample plan";
  workspace.model.provenance = {"spec 0123456789abcdef", "a machine with 2 cores"};
  for (int i = 0; i < rows; ++i) {
    VerdictRowModel row;
    row.optimization = "optimization_" + std::to_string(i);
    row.comparison = "slow -> fast";
    row.effect = "-6.1 % [-6.9, -5.2]";
    row.badge = "faster";
    row.headline = "faster, training unharmed";
    row.tone = Tone::Good;
    row.interval = IntervalPicture{-6.1, -6.9, -5.2, -8, -4, -0.4, 0.4};
    row.details = {
        {"Why",
         {{"", "a reason that is long enough to wrap when the text is large", Tone::Neutral}}}};
    row.launches = {{"launch 1", -6, -7, -5}, {"launch 2", -6.2, -7.1, -5.3}};
    workspace.model.rows.push_back(row);
  }
  workspace.model.axis = axis_of(workspace.model.rows);
  return workspace;
}

// One context and one backend a test: state does not leak between pictures.
struct Screen {
  explicit Screen(int width = 800, int height = 600) {
    auto created = OffscreenBackend::create(width, height);
    if (!created) throw std::runtime_error(created.error().message);
    backend = std::move(*created);
  }
  Image draw(Workspace& workspace, int frames = 3) const {
    return backend->render([&] { draw_main_window(workspace); }, frames);
  }
  [[no_unique_address]] DriverLeaks ignored;
  UiContext context;
  std::unique_ptr<OffscreenBackend> backend;
};

std::size_t colors_in(const Image& image) {
  std::set<int> seen;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    seen.insert(image.rgb[i] << 16 | image.rgb[i + 1] << 8 | image.rgb[i + 2]);
  return seen.size();
}

std::size_t count_of(const Image& image, Color color) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    if (Color{image.rgb[i], image.rgb[i + 1], image.rgb[i + 2]} == color) ++count;
  return count;
}

Image picture_of(Workspace workspace) {
  return Screen().draw(workspace);
}

TEST(Viewer, PicturesAreNotBlankAndRepeatExactly) {
  for (const ThemeKind theme : {ThemeKind::Dark, ThemeKind::Light})
    for (const float scale : {1.0F, 2.0F}) {
      Workspace workspace = sample();
      workspace.theme = theme;
      workspace.scale = scale;
      const Image first = picture_of(workspace);
      EXPECT_EQ(first.rgb.size(), 800U * 600U * 3U);
      EXPECT_GT(colors_in(first), 20U); // text edges alone give dozens
      EXPECT_EQ(first.rgb, picture_of(workspace).rgb) << "scale " << scale;
    }
}

TEST(Viewer, BadgesAndBarsShowTheirColours) {
  const Palette& dark = palette(ThemeKind::Dark);
  Workspace workspace = sample();
  for (VerdictRowModel& row : workspace.model.rows)
    row.launches.clear(); // their plot has the bars' colour
  const Image with_bar = picture_of(workspace);
  EXPECT_GT(count_of(with_bar, dark.good), 500U);  // three badges and one in the details
  EXPECT_GT(count_of(with_bar, dark.claim), 200U); // claimed range
  for (VerdictRowModel& row : workspace.model.rows) {
    row.interval.reset();
    row.tone = Tone::Bad;
  }
  const Image without = picture_of(workspace);
  EXPECT_LT(count_of(without, dark.claim), count_of(with_bar, dark.claim) / 2);
  EXPECT_GT(count_of(with_bar, dark.level),
            count_of(without, dark.level) + 60); // the legend has it too
  EXPECT_EQ(count_of(without, dark.good), 0U);
  EXPECT_GT(count_of(without, dark.bad), 500U);
}

TEST(Viewer, NoticesReplaceTheTable) {
  Workspace workspace = sample(0);
  workspace.model.notice =
      Notice{"No launch has run yet", "The plan is there.", "assay run plan.toml"};
  const Image empty = picture_of(workspace);
  workspace.model.failed = true;
  const Image failed = picture_of(workspace);
  const Palette& dark = palette(ThemeKind::Dark);
  EXPECT_GT(count_of(empty, dark.accent), 5U); // the command; most of a letter is edge
  EXPECT_EQ(count_of(empty, dark.bad), 0U);
  EXPECT_GT(count_of(failed, dark.bad), 20U);
  workspace.model.notice->action.clear();
  EXPECT_EQ(count_of(picture_of(workspace), dark.accent), 0U);
}

TEST(Viewer, KeysMoveTheSelectionAndScaleTheText) {
  const Screen screen;
  Workspace workspace = sample();
  screen.draw(workspace);
  const auto press = [&](std::initializer_list<ImGuiKey> keys) {
    for (const ImGuiKey key : keys) ImGui::GetIO().AddKeyEvent(key, true);
    screen.draw(workspace);
    for (const ImGuiKey key : keys) ImGui::GetIO().AddKeyEvent(key, false);
    screen.draw(workspace);
  };
  press({ImGuiKey_DownArrow});
  EXPECT_EQ(workspace.selected, 1U);
  press({ImGuiKey_UpArrow});
  EXPECT_EQ(workspace.selected, 0U);
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
  const Screen screen;
  Workspace workspace = sample();
  screen.draw(workspace);
  ImGuiIO& io = ImGui::GetIO();
  std::set<std::size_t> reached;
  for (float y = 120; y < 330; y += 10) {
    io.AddMousePosEvent(60, y);
    screen.draw(workspace);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, true);
    screen.draw(workspace, 1);
    io.AddMouseButtonEvent(ImGuiMouseButton_Left, false);
    screen.draw(workspace, 1);
    reached.insert(workspace.selected);
  }
  EXPECT_EQ(reached, (std::set<std::size_t>{0, 1, 2}));
}

TEST(Viewer, SurvivesRandomCommandsAtEverySize) {
  std::mt19937 random(11);
  const Screen screen(320, 240);
  for (const int rows : {1, 40}) {
    Workspace workspace = sample(rows);
    for (int i = 0; i < 150; ++i) {
      const Command& command = commands()[random() % commands().size()];
      if (command.id == "reload" || command.id == "quit") continue; // the sample is not on disk
      command.run(workspace);
      screen.draw(workspace, 1);
      ASSERT_LT(workspace.selected, workspace.model.rows.size());
    }
  }
}

TEST(Offscreen, ASizeThatCannotBeDrawnIsAnError) {
  [[maybe_unused]] const DriverLeaks ignored{};
  const UiContext context;
  const auto backend = OffscreenBackend::create(1 << 20, 1 << 20);
  ASSERT_FALSE(backend);
  EXPECT_NE(backend.error().message.find("framebuffer of this size"), std::string::npos)
      << backend.error().message;
}

} // namespace
} // namespace assay
