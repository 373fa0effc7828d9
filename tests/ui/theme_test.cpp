// Both palettes against WCAG 2.1, and the table of commands.
#include "ui/style/theme.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "experiments/evidence/verdict.h"
#include "tests/ui/support.h"
#include "ui/window/commands.h"

namespace assay {
namespace theme_test {

class PaletteTest : public testing::TestWithParam<ThemeKind> {};

TEST_P(PaletteTest, EveryTextHasContrastOnEverySurface) {
  const Palette& p = palette(GetParam());
  for (const Color surface : {p.window, p.panel, p.panel_alternate, p.selected})
    for (const Color text : {p.text, p.muted, p.accent})
      EXPECT_GE(contrast(text, surface), 4.5) << int(text.r) << " on " << int(surface.r);
  for (const Tone tone : {Tone::Good, Tone::Mixed, Tone::Neutral, Tone::Bad}) {
    EXPECT_GE(contrast(p.on_badge, p.tone(tone)), 4.5) << to_string(tone);
    EXPECT_GE(contrast(p.tone(tone), p.window), 4.5) << to_string(tone); // labels in the details
  }
}

TEST_P(PaletteTest, MarksStandOutFromTheirBackgrounds) {
  const Palette& p = palette(GetParam());
  for (const Color background :
       {p.window, p.panel_alternate, p.selected, p.band, p.claim}) // WCAG 1.4.11: 3:1
    EXPECT_GE(contrast(p.level, background),
              background == p.claim || background == p.band ? 2.0 : 3.0)
        << int(background.r);
  EXPECT_GE(contrast(p.claim, p.window), 1.3); // an area: seen, but behind
  EXPECT_GE(contrast(p.band, p.window), 1.2);
}

TEST_P(PaletteTest, TonesDifferFromEachOther) {
  const Palette& p = palette(GetParam());
  std::set<int> seen;
  for (const Tone tone : {Tone::Good, Tone::Mixed, Tone::Neutral, Tone::Bad}) {
    const Color color = p.tone(tone);
    seen.insert(color.r << 16 | color.g << 8 | color.b);
  }
  EXPECT_EQ(seen.size(), 4U);
}

INSTANTIATE_TEST_SUITE_P(Themes,
                         PaletteTest,
                         testing::Values(ThemeKind::Dark, ThemeKind::Light),
                         [](const auto& name) {
                           return name.param == ThemeKind::Dark ? "Dark" : "Light";
                         });

TEST(Contrast, HasTheValuesOfTheStandard) {
  EXPECT_NEAR(contrast({0, 0, 0}, {255, 255, 255}), 21.0, 1e-9);
  EXPECT_NEAR(contrast({255, 255, 255}, {0x76, 0x76, 0x76}),
              4.54,
              0.005); // the known grey that just passes
  EXPECT_EQ(contrast({9, 9, 9}, {9, 9, 9}), 1.0);
}

TEST(Theme, NamesAreParsedStrictly) {
  EXPECT_EQ(parse_theme("dark"), ThemeKind::Dark);
  EXPECT_EQ(parse_theme("light"), ThemeKind::Light);
  EXPECT_FALSE(parse_theme("Dark"));
}

// The screens and states in which a key means something; two commands may share one if they are
// never possible together.
std::vector<Workspace> situations() {
  std::vector<Workspace> all;
  for (const ScreenId screen : {ScreenId::Start,
                                ScreenId::Runs,
                                ScreenId::Compare,
                                ScreenId::Timeline,
                                ScreenId::Kernels,
                                ScreenId::Telemetry}) {
    Workspace workspace = test::opened(test::sample_directory(), screen);
    workspace.screen = screen;
    all.push_back(workspace);
    workspace.back.push_back({});
    workspace.forward.push_back({});
    all.push_back(workspace);
    all.push_back({});
    all.back().screen = screen;
  }
  return all;
}

TEST(Commands, IdsAreUniqueAndNoKeyMeansTwoThings) {
  std::set<std::string_view> ids;
  for (const Command& command : commands()) {
    EXPECT_TRUE(ids.insert(command.id).second) << command.id;
    EXPECT_FALSE(command.title.empty() || command.keys.empty() || command.chords.empty())
        << command.id;
    EXPECT_EQ(find_command(command.id), &command);
  }
  for (const Workspace& workspace : situations()) {
    std::set<int> chords;
    for (const Command& command : commands()) {
      if (!command.possible(workspace)) continue;
      for (const int chord : command.chords)
        EXPECT_TRUE(chords.insert(chord).second) << command.id << " on " << id_of(workspace.screen);
    }
  }
}

void run(Workspace& workspace, std::string_view id) {
  const Command* command = find_command(id);
  ASSERT_NE(command, nullptr) << id;
  command->run(workspace);
}

TEST(Commands, RowsStopAtBothEnds) {
  Workspace workspace = test::opened(test::sample_directory());
  run(workspace, "row.previous");
  EXPECT_EQ(workspace.row, 0U);
  for (int i = 0; i < 5; ++i) run(workspace, "row.next");
  EXPECT_EQ(workspace.row, 1U);
  workspace = {};
  run(workspace, "screen.runs");
  select_row(workspace, 1);
  EXPECT_EQ(workspace.row, 0U);
}

TEST(Commands, ScaleStaysInItsRangeAndReturnsToTheStart) {
  Workspace workspace;
  workspace.scale = workspace.initial_scale = 1.5F;
  for (int i = 0; i < 50; ++i) run(workspace, "scale.larger");
  EXPECT_EQ(workspace.scale, kMaxScale);
  for (int i = 0; i < 50; ++i) run(workspace, "scale.smaller");
  EXPECT_EQ(workspace.scale, kMinScale);
  run(workspace, "scale.reset");
  EXPECT_EQ(workspace.scale, 1.5F);
}

TEST(Commands, EscapeClosesWhatIsOnTopFirst) {
  Workspace workspace;
  workspace.stage = Stage::Forward;
  workspace.kernels.filter = "gemm";
  workspace.timeline.area = TimeRange{0, 1};
  run(workspace, "help");
  EXPECT_TRUE(workspace.help);
  run(workspace, "close");
  EXPECT_FALSE(workspace.help);
  EXPECT_TRUE(workspace.timeline.area);
  run(workspace, "close");
  EXPECT_FALSE(workspace.timeline.area);
  EXPECT_FALSE(workspace.kernels.filter.empty());
  run(workspace, "close");
  EXPECT_TRUE(workspace.kernels.filter.empty());
  EXPECT_TRUE(workspace.stage);
  run(workspace, "close");
  EXPECT_FALSE(workspace.stage);
}

} // namespace theme_test
} // namespace assay
