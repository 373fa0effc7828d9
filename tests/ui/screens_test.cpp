// Every screen in every state: what it says, and that its picture is not blank, repeats exactly and
// differs from the others.
#include "ui/screens/screens.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/ui/sample_ledger.h"
#include "tests/ui/support.h"

namespace assay {
namespace screens_test {

namespace fs = std::filesystem;
using test::Canvas;
using test::colors_in;
using test::opened;
using test::sample_directory;

TEST(Screens, AreInOrderWithUniqueIdsKeysAndHelp) {
  std::set<std::string_view> ids, keys;
  for (std::size_t i = 0; i < screens().size(); ++i) {
    const Screen& screen = screens()[i];
    EXPECT_EQ(static_cast<std::size_t>(screen.screen), i);
    EXPECT_EQ(screen.id, id_of(screen.screen));
    EXPECT_TRUE(ids.insert(screen.id).second);
    EXPECT_TRUE(keys.insert(screen.key).second);
    EXPECT_FALSE(screen.help.empty());
    EXPECT_EQ(find_screen(screen.id), screen.screen);
  }
  EXPECT_EQ(screens().size(), kScreens);
  EXPECT_FALSE(find_screen("nonsense"));
}

class EveryScreen : public testing::TestWithParam<ThemeKind> {};

TEST_P(EveryScreen, IsDrawnInEveryState) {
  const test::Directory empty;
  synthetic::store(planned_only(), empty.string());
  for (const std::string& path :
       {sample_directory(), empty.string(), std::string("/nonexistent"), std::string()}) {
    std::set<std::vector<std::uint8_t>> seen;
    for (const Screen& screen : screens()) {
      Workspace workspace;
      if (!path.empty()) workspace = opened(path, screen.screen);
      workspace.screen = screen.screen;
      workspace.theme = GetParam();
      const Image first = Canvas(900, 640).draw(workspace);
      EXPECT_GT(colors_in(first), 20U) << screen.id << " " << path; // text edges alone give dozens
      EXPECT_EQ(first.rgb, Canvas(900, 640).draw(workspace).rgb) << screen.id << " " << path;
      seen.insert(first.rgb);
    }
    EXPECT_EQ(seen.size(), screens().size()) << path; // the rail alone tells them apart
  }
}

INSTANTIATE_TEST_SUITE_P(Themes,
                         EveryScreen,
                         testing::Values(ThemeKind::Dark, ThemeKind::Light),
                         [](const auto& name) {
                           return name.param == ThemeKind::Dark ? "Dark" : "Light";
                         });

TEST(Screens, AreDrawnAtEverySize) {
  for (const float scale : {0.75F, 3.0F})
    for (const auto& [width, height] : {std::pair{200, 200}, {1600, 300}, {400, 1200}}) {
      const Canvas canvas(width, height);
      for (const Screen& screen : screens()) {
        Workspace workspace = opened(sample_directory(), screen.screen);
        workspace.screen = screen.screen;
        workspace.scale = scale;
        EXPECT_GT(colors_in(canvas.draw(workspace)), 5U) << screen.id << " " << width;
      }
    }
}

std::string explanation_of(const std::string& path) {
  const Workspace workspace = opened(path);
  if (workspace.single_trace) {
    const auto model = window_model(workspace)["model"];
    return model["sides"][0]["why_none"];
  }
  const auto block = blocked(workspace);
  return block ? block->notice.explanation : "";
}

TEST(Screens, OfTwoTraceFiles) {
  const test::Directory directory;
  const std::string a = directory / "a.sqlite", b = directory / "b.sqlite";
  write_small_trace(a, {});
  SmallTrace candidate;
  candidate.fused = true;
  candidate.variant = "varlen";
  write_small_trace(b, candidate);
  Workspace workspace;
  open_path(workspace, a, b);
  serve_requests(workspace);
  ASSERT_NE(workspace.explanation(), nullptr);
  const Canvas canvas(1600, 1000);
  for (const Screen& screen : screens()) {
    workspace.screen = screen.screen;
    EXPECT_GT(colors_in(canvas.draw(workspace)), 5U) << screen.id;
  }
  workspace.screen = ScreenId::Kernels;
  const auto kernels = window_model(workspace)["model"];
  EXPECT_EQ(kernels["baseline"], "mask_dense");
  EXPECT_EQ(kernels["candidate"], "varlen");
  bool fused = false;
  for (const auto& row : kernels["rows"]) fused = fused || row["name"] == kFusedKernel;
  EXPECT_TRUE(fused);
  workspace.screen = ScreenId::Runs;
  EXPECT_EQ(blocked(workspace)->notice.title, "These are two traces");
  open_path(workspace, a, directory / "nowhere.sqlite");
  serve_requests(workspace);
  workspace.screen = ScreenId::Kernels;
  EXPECT_TRUE(blocked(workspace)->failed);
}

// Damaged, foreign, newer, half-written and empty files each give their own message.
TEST(Files, ThatCannotBeReadEachSayWhy) {
  const test::Directory directory;
  std::ofstream(directory / "empty.sqlite").flush();
  std::ofstream(directory / "foreign.sqlite") << std::string(4096, 'x');
  const std::string good = directory / "good.sqlite";
  write_small_trace(good, {});
  fs::copy(good, directory / "half.sqlite.part");
  fs::copy(good, directory / "damaged.sqlite");
  std::fstream damaged(directory / "damaged.sqlite",
                       std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(8192);
  damaged << std::string(200'000, '\x5a');
  damaged.close();
  std::set<std::string> messages;
  for (const char* const name :
       {"empty.sqlite", "foreign.sqlite", "half.sqlite.part", "damaged.sqlite"}) {
    const std::string message = explanation_of(directory / name);
    EXPECT_NE(message.find(name), std::string::npos) << message; // names the file
    std::string without = message;
    without.replace(without.find(directory.string()),
                    directory.string().size() + std::string(name).size() + 1,
                    "");
    EXPECT_TRUE(messages.insert(without).second) << message;
  }
  EXPECT_EQ(explanation_of(good), "");
}

TEST(Files, AHalfWrittenTraceOfAComparisonSaysSo) {
  const test::Directory directory;
  store_with_traces(directory.string());
  const std::string trace = directory.string() + "/traces";
  for (const auto& entry : fs::directory_iterator(trace))
    if (entry.path().filename().string().find("varlen") != std::string::npos)
      fs::rename(entry.path(), entry.path().string() + ".part");
  const Workspace workspace = opened(directory.string(), ScreenId::Timeline);
  EXPECT_TRUE(workspace.traces[0].view);
  EXPECT_FALSE(workspace.traces[1].view);
  EXPECT_NE(workspace.traces[1].why_none.find(".part"), std::string::npos)
      << workspace.traces[1].why_none;
  const auto model = window_model(workspace);
  EXPECT_TRUE(model["model"]["notice"].is_null()); // A is still shown
  EXPECT_EQ(model["model"]["sides"][1]["why_none"], workspace.traces[1].why_none);
}

TEST(Files, ALedgerThatIsNoneIsAnErrorThatNamesIt) {
  const test::Directory directory;
  const Workspace missing = opened(directory.string());
  EXPECT_TRUE(blocked(missing)->failed);
  EXPECT_NE(explanation_of(directory.string()).find(directory.string()), std::string::npos);
  std::ofstream(directory / "ledger.sqlite") << std::string(4096, 'y');
  EXPECT_NE(explanation_of(directory.string()).find("ledger.sqlite"), std::string::npos);
}

TEST(Files, ATraceAloneIsATimelineWithOneSide) {
  const test::Directory directory;
  write_small_trace(directory / "one.sqlite", {});
  const Workspace workspace = opened(directory / "one.sqlite");
  EXPECT_EQ(workspace.screen, ScreenId::Timeline);
  const auto model = window_model(workspace)["model"];
  EXPECT_EQ(model["sides"][0]["variant"], "mask_dense");
  EXPECT_TRUE(model["sides"][0]["loaded"].get<bool>());
  Workspace runs = workspace;
  runs.screen = ScreenId::Runs;
  EXPECT_EQ(blocked(runs)->notice.title, "This is a single trace");
}

TEST(Loader, AnswersOnItsOwnThreadAndDropsOldAnswers) {
  Workspace workspace;
  open_path(workspace, "/nonexistent");
  const LoadRequest old = workspace.requests.at(0);
  open_path(workspace, sample_directory());
  accept(workspace, {old, nullptr, nullptr, "an old error", true});
  EXPECT_EQ(workspace.open_error, "");
  std::atomic<int> woken{0};
  Loader loader([&] { ++woken; });
  for (int i = 0; i < 5000 && (workspace.loading || !workspace.results); ++i) {
    loader.exchange(workspace);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_TRUE(workspace.results);
  EXPECT_TRUE(workspace.results->explained);
  EXPECT_EQ(woken.load(), 3); // the first path's error, verdicts, explanations
}

} // namespace screens_test
} // namespace assay
