// Two traces above each other: steps pair, anchors align, partners are found, navigation stays
// inside what there is.
#include "ui/model/navigate.h"
#include "ui/model/side.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/ui/small_trace.h"
#include "ui/model/area.h"
#include "ui/model/loader.h"
#include "ui/model/timeline_model.h"
#include "ui/model/workspace.h"
#include "ui/timeline/telemetry_strip.h"

namespace assay {
namespace timeline_test {

namespace fs = std::filesystem;

std::shared_ptr<const TraceView> view_of(const SmallTrace& what) {
  static int count = 0;
  const fs::path path =
      fs::temp_directory_path() / fmt::format("assay_view_{}_{}.sqlite", ::getpid(), count++);
  write_small_trace(path.string(), what);
  auto trace = read_trace(path.string());
  fs::remove(path);
  if (!trace) throw std::runtime_error(trace.error().message);
  return std::make_shared<const TraceView>(std::move(*trace));
}

Workspace two_traces(int b_steps = 12) {
  Workspace workspace;
  workspace.screen = ScreenId::Timeline;
  workspace.traces[0].view = view_of({});
  trace_arrived(workspace, 0);
  SmallTrace b;
  b.fused = true;
  b.variant = "varlen";
  b.steps = b_steps;
  workspace.traces[1].view = view_of(b);
  trace_arrived(workspace, 1);
  fit_step(workspace);
  return workspace;
}

EventRef
event_named(const TraceView& view, Source source, const std::string& part, std::size_t step) {
  const StepSpan span = span_of_step(view, step, source);
  for (std::uint32_t i = 0; i < view.trace().device.size(); ++i) {
    const EventRef event{source, i};
    if (view.start(event) >= span.start && view.start(event) < span.end &&
        view.name(event).find(part) != std::string::npos)
      return event;
  }
  throw std::runtime_error("no event is called " + part);
}

TEST(TraceView, TracksAreStagesThenDeviceThenHost) {
  const auto view = view_of({});
  std::vector<std::string> titles;
  for (const Track& track : view->tracks()) titles.push_back(track.title);
  ASSERT_GE(titles.size(), 5U);
  EXPECT_EQ(titles[0], "stages");
  EXPECT_EQ(titles[1], "GPU 0 stream 7");
  EXPECT_EQ(titles[2], "GPU 0 copies, sets");
  EXPECT_EQ(titles[3], "main spans");
  EXPECT_EQ(titles[4], "main operators");
}

TEST(TraceView, TheTypicalStepIsCounted) {
  const auto view = view_of({});
  EXPECT_EQ(view->steps().size(), 12U);
  EXPECT_GE(view->representative(), 2U);
  EXPECT_TRUE(view->steps()[view->representative()].step.counted);
}

TEST(TraceView, OccurrencesAreAllEventsOfAName) {
  const auto view = view_of({});
  std::size_t all = 0;
  for (NameId name = 0; name < view->trace().names.size(); ++name) {
    const auto found = view->occurrences(Source::Device, name);
    all += found.count;
    for (std::size_t i = 0; i < found.count; ++i) {
      EXPECT_EQ(view->name_id({Source::Device, found.first[i]}), name);
      if (i > 0) {
        EXPECT_LT(found.first[i - 1], found.first[i]);
      }
    }
  }
  EXPECT_EQ(all, view->trace().device.size());
}

TEST(Timeline, AKernelKnowsTheCallThatLaunchedIt) {
  Workspace workspace = two_traces();
  const TraceView& view = *workspace.traces[0].view;
  std::size_t found = 0;
  for (std::uint32_t i = 0; i < view.trace().device.size(); ++i) {
    const auto call = launch_of(view, {Source::Device, i});
    if (!call) continue;
    ++found;
    EXPECT_EQ(view.trace().api[call->index].correlation, view.trace().device[i].correlation);
    EXPECT_LE(view.start(*call), view.start({Source::Device, i}));
  }
  EXPECT_GT(found, view.trace().device.size() / 2);
  EXPECT_FALSE(launch_of(view, {Source::Span, 0}));
  const EventRef kernel = event_named(view, Source::Device, "gemm", workspace.timeline.step[0]);
  EXPECT_EQ(words_of(workspace, {0, kernel}).launch.find("launched by cudaLaunchKernel"), 0U);
}

TEST(Timeline, TelemetryStripsShareTheScaleOfBothTraces) {
  Workspace workspace = two_traces();
  const auto a = telemetry_strips(workspace, 0), b = telemetry_strips(workspace, 1);
  ASSERT_EQ(a.size(), 3U); // the refused series is not among them
  EXPECT_EQ(a[1].series->metric.name, "Power [W]");
  EXPECT_EQ(a[1].low, b[1].low);
  EXPECT_EQ(a[1].high, b[1].high);
  EXPECT_NEAR(a[1].low, 560 - 35, 1);  // of B
  EXPECT_NEAR(a[1].high, 610 + 35, 1); // of A
  fit_run(workspace);
  EXPECT_EQ(telemetry_strips(workspace, 0)[1].title.find("Power [W] 61"), 0U);
  workspace.timeline.range[0] = {-1e12, 1e6};
  EXPECT_EQ(telemetry_strips(workspace, 0)[1].title, "Power [W] no sample here");
  workspace.timeline.strips = false;
  EXPECT_TRUE(telemetry_strips(workspace, 0).empty());
}

TEST(Timeline, StepsPairByRound) {
  Workspace workspace = two_traces();
  const auto round = [&](std::size_t side) {
    return workspace.traces[side].view->steps()[workspace.timeline.step[side]].step.round;
  };
  EXPECT_EQ(round(0), round(1));
  set_step(workspace, 0, 7);
  EXPECT_EQ(workspace.timeline.step[0], 7U);
  EXPECT_EQ(round(0), round(1));
  move_step(workspace, 100);
  EXPECT_EQ(workspace.timeline.step[0], 11U);
  move_step(workspace, -100);
  EXPECT_EQ(workspace.timeline.step[0], 0U);
  EXPECT_EQ(round(0), round(1));
  workspace.timeline.linked = false;
  set_step(workspace, 0, 5);
  EXPECT_EQ(workspace.timeline.step[0], 5U);
  EXPECT_EQ(workspace.timeline.step[1], 0U);
}

// B is about 1 ms faster, except in the step that pairs with the one typical of A.
TEST(Timeline, TheFirstPairShownAgreesWithMostPairs) {
  Workspace workspace;
  workspace.traces[0].view = view_of({});
  const std::size_t typical_of_a = workspace.traces[0].view->representative();
  SmallTrace b;
  b.fused = true;
  b.slower_us.assign(12, 0);
  b.slower_us[typical_of_a] = 9'000;
  workspace.traces[1].view = view_of(b);
  for (const std::size_t last : {std::size_t{0}, std::size_t{1}}) { // whichever arrives last
    workspace.timeline = {};
    trace_arrived(workspace, 1 - last);
    trace_arrived(workspace, last);
    const auto wall = [&](std::size_t side) {
      return workspace.traces[side].view->steps()[workspace.timeline.step[side]].wall_ns();
    };
    EXPECT_LT(wall(1), wall(0));
    EXPECT_NE(workspace.timeline.step[0], typical_of_a);
    const auto shown = workspace.timeline.step;
    EXPECT_EQ(shown[1],
              paired_step(*workspace.traces[0].view, shown[0], *workspace.traces[1].view));
    EXPECT_TRUE(workspace.traces[1].view->steps()[shown[1]].step.counted);
    EXPECT_TRUE(timeline_model(workspace).sides[1].step.ends_with("typical"));
    move_step(workspace, 3);
    representative_step(workspace);
    EXPECT_EQ(workspace.timeline.step, shown);
  }
}

TEST(Timeline, AStepThatTheOtherTraceLacksLeavesItWhereItIs) {
  Workspace workspace = two_traces(6);
  set_step(workspace, 0, 3);
  EXPECT_EQ(workspace.timeline.step[1], 3U);
  set_step(workspace, 0, 10);
  EXPECT_EQ(workspace.timeline.step[0], 10U);
  EXPECT_EQ(workspace.timeline.step[1], 3U);
}

TEST(Timeline, AnchorsAreTheStepsOrTheStagesStart) {
  Workspace workspace = two_traces();
  for (std::size_t side = 0; side < 2; ++side) {
    const TraceView& view = *workspace.traces[side].view;
    const StepTiling& step = view.steps()[workspace.timeline.step[side]];
    workspace.timeline.align = Align::StepStart;
    EXPECT_EQ(anchor(workspace, side), step.start);
    workspace.timeline.align = Align::StageStart;
    workspace.stage = Stage::Backward;
    std::int64_t first = 0;
    for (const StageSegment& segment : step.segments)
      if (segment.stage == Stage::Backward && first == 0) first = segment.start;
    EXPECT_EQ(anchor(workspace, side), first);
    workspace.timeline.align = Align::Free;
    EXPECT_EQ(anchor(workspace, side), view.first_time());
  }
}

TEST(Timeline, PartnersHaveTheSameNameAndOrdinal) {
  Workspace workspace = two_traces();
  const TraceView& a = *workspace.traces[0].view;
  const TraceView& b = *workspace.traces[1].view;
  const std::size_t step = workspace.timeline.step[0];
  const EventRef gelu = event_named(a, Source::Device, "GeluFunctor", step);
  workspace.timeline.selected = Selection{0, gelu};
  next_same(workspace, 2); // the third of its step
  const Partner partner = partner_of(workspace, *workspace.timeline.selected).value();
  ASSERT_TRUE(partner.event);
  EXPECT_EQ(partner.ordinal, 2U);
  EXPECT_EQ(partner.here, 6U);
  EXPECT_EQ(partner.there, 6U);
  EXPECT_EQ(b.name(*partner.event), a.name(gelu));
  EXPECT_EQ(step_of(b, *partner.event), workspace.timeline.step[1]);
}

TEST(Timeline, WhatOnlyOneSideHasHasNoPartner) {
  Workspace workspace = two_traces();
  const TraceView& b = *workspace.traces[1].view;
  const EventRef fused = event_named(b, Source::Device, "flash_fwd", workspace.timeline.step[1]);
  workspace.timeline.selected = Selection{1, fused};
  EXPECT_FALSE(partner_of(workspace, *workspace.timeline.selected)->event);
  const TimelineModel model = timeline_model(workspace);
  EXPECT_EQ(model.partner_words.find(side_title(0, workspace.traces[0].variant)), 0U)
      << model.partner_words;
  EXPECT_EQ(model.selected->name, kFusedKernel);
  EXPECT_EQ(model.selected->stage, "attention");
  EXPECT_LT(model.difference_ns.value(), -1e6);
}

TEST(Timeline, TheLastOfManyHasNoPartnerAmongFew) {
  Workspace workspace = two_traces();
  const TraceView& a = *workspace.traces[0].view;
  workspace.timeline.selected =
      Selection{0, event_named(a, Source::Device, "gemm", workspace.timeline.step[0])};
  next_same(workspace, 20); // of 24 in A's step; B has 12
  const Partner partner = partner_of(workspace, *workspace.timeline.selected).value();
  EXPECT_EQ(partner.ordinal, 20U);
  EXPECT_EQ(partner.there, 12U);
  EXPECT_FALSE(partner.event);
}

TEST(Timeline, SameNamedEventsAreWalkedAcrossSteps) {
  Workspace workspace = two_traces();
  ASSERT_TRUE(find_name(workspace, kFusedKernel));
  const std::size_t step = workspace.timeline.step[1];
  for (int i = 0; i < 6; ++i) next_same(workspace, 1);
  EXPECT_EQ(workspace.timeline.step[1], step + 1); // six layers a step
  next_same(workspace, -1);
  EXPECT_EQ(workspace.timeline.step[1], step);
  next_same(workspace, -1000);
  EXPECT_EQ(workspace.timeline.step[1], 0U);
}

TEST(Timeline, ZoomAndPanKeepTheTraceInSight) {
  Workspace workspace = two_traces();
  const auto sees_something = [&] {
    const TimeRange range = workspace.timeline.range[0];
    const TraceView& view = *workspace.traces[0].view;
    const auto zero = static_cast<double>(anchor(workspace, 0));
    return range.from < static_cast<double>(view.last_time()) - zero &&
           range.from + range.span > static_cast<double>(view.first_time()) - zero;
  };
  for (int i = 0; i < 200; ++i) {
    pan(workspace, i % 3 == 0 ? 0.7 : -0.4);
    zoom(workspace, i % 5 == 0 ? 0.5 : 1.1, 0.3);
    ASSERT_TRUE(sees_something()) << i;
    ASSERT_EQ(workspace.timeline.range[0].from, workspace.timeline.range[1].from);
  }
  for (int i = 0; i < 100; ++i) zoom(workspace, 0.5, 0.5);
  EXPECT_GE(workspace.timeline.range[0].span, 100);
}

TEST(Timeline, AnAreaSumsUpWhatBeginsInIt) {
  Workspace workspace = two_traces();
  EXPECT_FALSE(area_summary(workspace));
  const StepTiling& step = workspace.traces[0].view->steps()[workspace.timeline.step[0]];
  workspace.timeline.area = TimeRange{0, static_cast<double>(step.wall_ns())};
  const AreaSummary summary = area_summary(workspace).value();
  // 6 layers of 6 forward and 3 backward kernels, 4 of the optimizer
  EXPECT_NE(summary.sides[0].find("GPU 0 stream 7: 58 begin"), std::string::npos)
      << summary.sides[0];
}

TEST(Timeline, ATraceThatFailedItsAuditSaysSo) {
  Workspace workspace = two_traces();
  SmallTrace bad;
  bad.failed_audit = true;
  workspace.traces[0].view = view_of(bad);
  const TimelineModel model = timeline_model(workspace);
  ASSERT_EQ(model.sides[0].failed_checks.size(), 1U);
  EXPECT_NE(model.sides[0].failed_checks[0].find("312 records were lost"), std::string::npos);
  EXPECT_TRUE(model.sides[1].failed_checks.empty());
}

TEST(Timeline, ATraceWithoutStepsIsShownWhole) {
  Workspace workspace;
  workspace.screen = ScreenId::Timeline;
  SmallTrace none;
  none.steps = 0;
  workspace.traces[0].view = view_of(none);
  trace_arrived(workspace, 0);
  fit_step(workspace);
  move_step(workspace, 1);
  EXPECT_EQ(timeline_model(workspace).sides[0].step, "no steps were recorded");
}

} // namespace timeline_test
} // namespace assay
