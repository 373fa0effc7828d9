// Sessions: from the matrix to the kernel that explains a difference in four actions, by mouse and
// keyboard; the palette; random commands; settings.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "imgui.h"
#include "tests/paths.h"
#include "tests/ui/support.h"
#include "ui/model/settings.h"
#include "ui/screens/screens.h"
#include "ui/window/commands.h"
#include "ui/window/script.h"

namespace assay {
namespace session_test {

using test::Canvas;
using test::opened;
using test::sample_directory;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<int> play(Workspace& workspace, const std::string& script) {
  const Canvas canvas(1400, 900);
  return run_script(workspace, *canvas.backend, script, "test");
}

TEST(Session, ReachesTheKernelThatExplainsADifferenceInFourActions) {
  Workspace workspace = opened(sample_directory());
  const std::string script = read_file(test::source_dir() + "/tests/ui/to_the_kernel.script");
  const Result<int> actions = play(workspace, script);
  ASSERT_TRUE(actions) << actions.error().message;
  EXPECT_LE(*actions, 4);
  EXPECT_GE(*actions, 2);
}

TEST(Session, AnExpectationThatFailsNamesItsLine) {
  Workspace workspace = opened(sample_directory());
  const Result<int> result = play(workspace, "# comment\n\nkey 2\nexpect screen=kernels\n");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message,
            "test:4: expect screen=kernels: expected screen=kernels, but screen is 'compare'");
}

TEST(Session, MistakesInAScriptAreNamed) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"press A", "unknown action 'press'"},
      {"key Ctrl+Blah", "no key is called 'Blah'"},
      {"run nothing", "no command is called 'nothing'"},
      {"run focus", "focus is not possible here"},
      {"click screen.kernel",
       "nothing on the screen is called 'screen.kernel' (did you mean 'screen.kernels'?)"},
      {"expect no.such=1", "the model has no no.such"}};
  for (const auto& [line, message] : mistakes) {
    Workspace workspace = opened(sample_directory());
    const Result<int> result = play(workspace, line);
    ASSERT_FALSE(result) << line;
    EXPECT_NE(result.error().message.find(message), std::string::npos) << result.error().message;
  }
}

TEST(Session, ThePaletteRunsWhatIsTyped) {
  Workspace workspace = opened(sample_directory());
  const Result<int> result = play(workspace,
                                  "key Ctrl+P\nexpect palette=true\ntype telemetry\nkey Enter\n"
                                  "expect screen=telemetry\nexpect palette=false\n"
                                  "key Ctrl+P\ntype 4\nkey Esc\nexpect palette=false\n"
                                  "expect screen=telemetry\n");
  ASSERT_TRUE(result) << result.error().message;
}

TEST(Session, LettersTypedIntoTheFilterAreNoCommands) {
  Workspace workspace = opened(sample_directory(), ScreenId::Kernels);
  const Result<int> result = play(
      workspace, "key Ctrl+F\ntype h1q flash\nexpect screen=kernels\nexpect model.notice~h1q\n");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(workspace.kernels.filter, "h1q flash");
}

TEST(Session, BackAndForwardReturnToWhereOneWas) {
  Workspace workspace = opened(sample_directory());
  const Result<int> result = play(workspace,
                                  "key 2\nclick waterfall.forward\nexpect screen=timeline\n"
                                  "expect stage=forward\nkey Alt+Left\nexpect screen=compare\n"
                                  "key Alt+Left\nexpect screen=runs\nexpect stage=\n"
                                  "key Alt+Right\nkey Alt+Right\nexpect screen=timeline\n");
  ASSERT_TRUE(result) << result.error().message;
}

TEST(Session, TheMouseZoomsPansAndMeasures) {
  Workspace workspace = opened(sample_directory(), ScreenId::Timeline);
  const Canvas canvas(1400, 900);
  const auto run = [&](const std::string& script) {
    const Result<int> result = run_script(workspace, *canvas.backend, script, "mouse");
    EXPECT_TRUE(result) << result.error().message;
  };
  run("move 700 200");
  const TimeRange whole = workspace.timeline.range[0];
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, true);
  run("wheel 3");
  ImGui::GetIO().AddKeyEvent(ImGuiMod_Ctrl, false);
  EXPECT_LT(workspace.timeline.range[0].span, whole.span * 0.6);
  EXPECT_EQ(workspace.timeline.range[0].span, workspace.timeline.range[1].span);
  run("drag 500 200 800 200");
  ASSERT_TRUE(workspace.timeline.area);
  EXPECT_GT(workspace.timeline.area->span, 0);
  run("key Esc\nkey 0");
  EXPECT_FALSE(workspace.timeline.area);
  EXPECT_DOUBLE_EQ(workspace.timeline.range[0].span, whole.span);
}

TEST(Session, CopyingPutsTheTableIntoTheClipboard) {
  Workspace workspace = opened(sample_directory(), ScreenId::Kernels);
  const Canvas canvas(1400, 900);
  ASSERT_TRUE(run_script(workspace, *canvas.backend, "key Ctrl+C", "copy"));
  EXPECT_EQ(std::string(ImGui::GetClipboardText()), markdown(kernels_table(workspace)));
}

TEST(Session, SurvivesTwoThousandRandomCommands) {
  const Canvas canvas(640, 400);
  Workspace workspace = opened(sample_directory());
  run_random_commands(workspace, *canvas.backend, 2000, 20'260'101);
  ASSERT_TRUE(workspace.results);
  EXPECT_LT(workspace.row, workspace.results->places.size());
}

TEST(Session, SurvivesRandomCommandsWithoutResults) {
  const Canvas canvas(320, 240);
  for (const char* const path : {"", "/nonexistent"}) {
    Workspace workspace;
    open_path(workspace, path);
    run_random_commands(workspace, *canvas.backend, 200, 7);
  }
}

TEST(Settings, ComeBackAsTheyWereSaved) {
  const test::Directory directory;
  const std::string path = directory / "deep/settings.json";
  Workspace saved;
  saved.theme = ThemeKind::Light;
  saved.scale = 1.5F;
  saved.recent = {"/a", "/b \xff"};
  EXPECT_EQ(save_settings(saved, path), "");
  Workspace loaded;
  load_settings(loaded, path);
  EXPECT_EQ(loaded.theme, ThemeKind::Light);
  EXPECT_EQ(loaded.scale, 1.5F);
  ASSERT_EQ(loaded.recent.size(), 2U);
  EXPECT_EQ(loaded.recent[0], "/a");
  std::ofstream(path) << "{ broken";
  Workspace other;
  load_settings(other, path);
  EXPECT_NE(other.status.find("is not JSON"), std::string::npos);
  std::ofstream(path) << R"({"theme": 3, "scale": "x", "recent": {}})";
  load_settings(other, path);
  EXPECT_EQ(other.theme, ThemeKind::Dark);
}

} // namespace session_test
} // namespace assay
