// Idle gaps on the timeline: what the query finds, placed in steps; walking them; every state.
#include "ui/model/gaps.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/ui/support.h"
#include "ui/model/align.h"
#include "ui/screens/screens.h"
#include "ui/style/theme.h"
#include "ui/window/script.h"

namespace assay {
namespace gaps_test {

using test::Canvas;
using test::opened;
using test::sample_directory;

Workspace sample() {
  return opened(sample_directory(), ScreenId::Timeline);
}

// The longest time inside a step in which no event of the device ran, by looking at all of them.
std::int64_t longest_by_hand(const TraceView& view) {
  std::int64_t longest = 0, free = 0;
  for (const DeviceEvent& event : view.trace().device) { // ordered by start
    const std::size_t step = free == 0 ? view.steps().size() : view.step_at(free);
    if (step < view.steps().size() && event.start <= view.steps()[step].end)
      longest = std::max(longest, event.start - free);
    free = std::max(free, event.end);
  }
  return longest;
}

TEST(Gaps, AreIdleInsideTheirStepLongestFirst) {
  const Workspace workspace = sample();
  ASSERT_FALSE(workspace.gaps.empty());
  std::array<std::int64_t, 2> longest{};
  for (const IdleGap& gap : workspace.gaps) {
    const TraceView& view = *workspace.traces[gap.side].view;
    longest[gap.side] = std::max(longest[gap.side], gap.end - gap.start);
    EXPECT_LT(gap.start, gap.end);
    EXPECT_GE(gap.start, view.steps()[gap.step].start);
    EXPECT_LE(gap.end, view.steps()[gap.step].end);
    bool ends = false, begins = false;
    for (const DeviceEvent& event : view.trace().device) {
      ends = ends || event.end == gap.start;
      begins = begins || event.start == gap.end;
      EXPECT_TRUE(event.end <= gap.start || event.start >= gap.end);
    }
    EXPECT_TRUE(ends && begins);
    EXPECT_FALSE(gap.after.empty() || gap.before.empty() || gap.meanwhile.empty());
  }
  for (std::size_t side = 0; side < 2; ++side)
    EXPECT_EQ(longest[side], longest_by_hand(*workspace.traces[side].view)) << side;
  for (std::size_t i = 1; i < workspace.gaps.size(); ++i)
    EXPECT_GE(workspace.gaps[i - 1].length(), workspace.gaps[i].length());
}

TEST(Gaps, WhatReachesBeyondItsStepIsNotInsideIt) {
  const Workspace workspace = sample();
  const TraceView& view = *workspace.traces[0].view;
  const StepTiling& step = view.steps()[3];
  const std::vector<DeviceGap> found{{step.end - 1'000, step.end + 5'000, 0, 3, "a", "b"},
                                     {step.start + 1, step.start + 900, 0, 3, "a\x01", "b"},
                                     {view.last_time() + 1, view.last_time() + 9, 0, {}, "a", "b"}};
  const std::vector<IdleGap> inside = gaps_inside_steps(view, 0, found);
  ASSERT_EQ(inside.size(), 1U);
  EXPECT_EQ(inside[0].step, 3U);
  EXPECT_EQ(inside[0].end, step.start + 900);
  EXPECT_EQ(inside[0].after.find('\x01'), std::string::npos); // printable
}

TEST(Gaps, ShowingOneMovesTheTimelineThere) {
  Workspace workspace = sample();
  for (const bool linked : {true, false}) {
    workspace.timeline.linked = linked;
    for (std::size_t i = 0; i < std::min<std::size_t>(8, workspace.gaps.size()); ++i) {
      show_gap(workspace, i);
      const IdleGap& gap = workspace.gaps[i];
      const TimeRange range = workspace.timeline.range[gap.side];
      const double from = static_cast<double>(gap.start - anchor(workspace, gap.side));
      EXPECT_EQ(workspace.timeline.step[gap.side], gap.step);
      EXPECT_LT(range.from, from);
      EXPECT_GT(range.from + range.span, from + gap.length());
      EXPECT_LT(range.span, 10 * gap.length() + 100); // what surrounds it, not the whole step
      ASSERT_TRUE(workspace.timeline.area);
      EXPECT_EQ(workspace.timeline.area->span, gap.length());
    }
  }
  show_gap(workspace, workspace.gaps.size()); // none such: stays
  EXPECT_LT(*workspace.timeline.gap, workspace.gaps.size());
}

TEST(Gaps, KeysAndClicksWalkThem) {
  Workspace workspace = sample();
  ASSERT_GE(workspace.gaps.size(), 4U);
  const Canvas canvas(1400, 900);
  const Result<int> played = run_script(workspace,
                                        *canvas.backend,
                                        "key I\nexpect model.gaps.shown=0\n"
                                        "key I\nexpect model.gaps.shown=1\n"
                                        "key Shift+I\nexpect model.gaps.shown=0\n"
                                        "key Shift+I\nexpect model.gaps.shown=0\n"
                                        "key U\nclick gap.2\nexpect model.gaps.shown=2\n"
                                        "key U\nrun gap.next\nexpect model.gaps.shown=3\n",
                                        "gaps");
  ASSERT_TRUE(played) << played.error().message;
  for (const Target& target : workspace.targets)
    EXPECT_NE(target.id.rfind("gap.", 0), 0U); // hidden
}

TEST(Gaps, TheListLeavesTheLanesTheirRoom) {
  Workspace workspace = sample();
  EXPECT_FALSE(workspace.timeline.gap_list) << "a list costs more of a frame than a line";
  workspace.timeline.gap_list = true;
  const auto rows_in = [&](int width, int height, float scale) {
    workspace.scale = scale;
    Canvas(width, height).draw(workspace);
    return std::count_if(workspace.targets.begin(),
                         workspace.targets.end(),
                         [](const auto& target) { return target.id.rfind("gap.", 0) == 0; });
  };
  EXPECT_GE(rows_in(1280, 800, 1), 2);
  EXPECT_EQ(rows_in(1280, 500, 1), 0); // a line of words only
  EXPECT_EQ(rows_in(1280, 800, 3), 0);
}

// A frozen header and unclipped cells do not go together: rows that scrolled in lost their text.
TEST(Gaps, RowsThatScrolledInKeepAllColumns) {
  Workspace workspace = sample();
  ASSERT_GE(workspace.gaps.size(), 20U);
  workspace.timeline.gap_list = true;
  const Canvas canvas(1400, 900);
  canvas.draw(workspace);
  show_gap(workspace, 15);
  workspace.timeline.scroll_to_gap = true;
  const Image image = canvas.draw(workspace, 5);
  const auto row = std::find_if(workspace.targets.begin(),
                                workspace.targets.end(),
                                [](const Target& target) { return target.id == "gap.15"; });
  ASSERT_NE(row, workspace.targets.end());
  ASSERT_TRUE(row->y > 500 && row->y < 890) << row->y;
  const Color words = palette(workspace.theme).text; // of the last two columns: the right half
  std::size_t pixels = 0;
  for (int y = static_cast<int>(row->y) - 8; y < static_cast<int>(row->y) + 8; ++y)
    for (int x = image.width / 2; x < image.width; ++x) {
      const std::uint8_t* const p = &image.rgb[3 * static_cast<std::size_t>(y * image.width + x)];
      if (Color{p[0], p[1], p[2]} == words) ++pixels;
    }
  EXPECT_GT(pixels, 50U);
}

TEST(Gaps, AnOldAnswerAndAnErrorAreToldApart) {
  Workspace workspace = sample();
  const std::size_t before = workspace.gaps.size();
  const std::uint64_t ticket = workspace.traces[0].ticket;
  LoadReply old{{LoadRequest::Kind::Gaps, "x", 0, ticket - 1}, nullptr, nullptr, "too late", true};
  accept(workspace, old);
  EXPECT_EQ(workspace.gaps.size(), before);
  LoadReply failed{{LoadRequest::Kind::Gaps, "x", 0, ticket}, nullptr, nullptr, "disk gone", true};
  accept(workspace, failed);
  EXPECT_NE(gap_words(workspace).find("baseline "), std::string::npos) << gap_words(workspace);
  EXPECT_NE(gap_words(workspace).find("disk gone"), std::string::npos) << gap_words(workspace);
  for (const IdleGap& gap : workspace.gaps)
    EXPECT_EQ(gap.side, 1U); // the candidate's are still there
  EXPECT_GT(test::colors_in(Canvas(900, 640).draw(workspace)), 20U);
  const test::Directory directory;
  const Result<std::vector<DeviceGap>> none = device_gaps(directory / "none.sqlite");
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("none.sqlite"), std::string::npos) << none.error().message;
}

TEST(Gaps, TheSearchEndsWhenItIsToldTo) {
  const Workspace workspace = sample();
  std::atomic<bool> stop{true};
  const Result<std::vector<DeviceGap>> stopped = device_gaps(workspace.traces[0].path, &stop);
  ASSERT_FALSE(stopped);
  EXPECT_NE(stopped.error().message.find("interrupted"), std::string::npos)
      << stopped.error().message;
  stop = false;
  EXPECT_TRUE(device_gaps(workspace.traces[0].path, &stop));
}

// On the loader's thread, among other requests: nothing is lost, the gaps come in the end.
TEST(Gaps, ArriveAfterWhatElseIsWanted) {
  Workspace workspace = sample();
  const std::size_t expected = workspace.gaps.size();
  workspace = Workspace{};
  open_path(workspace, sample_directory());
  workspace.screen = ScreenId::Timeline;
  Loader loader([] {});
  const auto done = [&] {
    return workspace.gaps.size() == expected && !workspace.loading &&
           !workspace.traces[0].gaps_loading && !workspace.traces[1].gaps_loading;
  };
  for (int i = 0; i < 5000 && !done(); ++i) {
    if (i < 20) workspace.requests.push_back({LoadRequest::Kind::Trace, "/nonexistent", 0, 0});
    loader.exchange(workspace);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  EXPECT_TRUE(done());
}

TEST(Gaps, WithoutADeviceThereIsNothingToList) {
  const test::Directory directory;
  const std::string path = directory / "host.sqlite";
  {
    TraceWriter writer(path, 1'000'000'000);
    TraceBatch batch;
    StepRow step;
    step.start = 1'000'001'000;
    step.end = 1'000'900'000;
    step.global_tid = 7;
    batch.steps.push_back(step);
    writer.append(batch);
    writer.finish();
  }
  Workspace workspace = opened(path);
  ASSERT_TRUE(workspace.traces[0].view);
  const auto model = window_model(workspace)["model"]["gaps"];
  EXPECT_EQ(model["words"], "No device in these traces, so no idle gaps.");
  EXPECT_EQ(model["count"], 0);
  const Result<std::vector<DeviceGap>> gaps = device_gaps(path);
  ASSERT_TRUE(gaps);
  EXPECT_TRUE(gaps->empty());
  workspace = sample();
  workspace.gaps.clear();
  EXPECT_EQ(gap_words(workspace), "No device was idle inside a step.");
  workspace.traces[1].gaps_loading = true;
  EXPECT_EQ(gap_words(workspace), "Reading the idle gaps …");
}

} // namespace gaps_test
} // namespace assay
