// The pyramid against brute force: sums, longest events, and what is visible at any zoom; a frame
// never holds more rectangles than its budget.
#include "ui/model/trace/lane.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/ui/small_trace.h"
#include "ui/model/trace/layout.h"

namespace assay {
namespace lane_test {

Lane random_lane(std::mt19937_64& random, std::size_t count) {
  Lane lane;
  std::int64_t time = static_cast<std::int64_t>(random() % 1000) - 500;
  for (std::size_t i = 0; i < count; ++i) {
    time += static_cast<std::int64_t>(random() % 3 == 0 ? 0 : random() % 40);
    const auto duration =
        static_cast<std::int64_t>(random() % 50 == 0 ? random() % 5000 : random() % 30);
    lane.add(time,
             time + duration,
             static_cast<std::uint32_t>(i),
             static_cast<std::uint8_t>(random() % 8));
    time += duration;
  }
  lane.finish();
  return lane;
}

TEST(Lane, SummariesEqualBruteForce) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {1U, 15U, 16U, 17U, 256U, 257U, 5000U}) {
    const Lane lane = random_lane(random, count);
    for (int query = 0; query < 300; ++query) {
      const std::size_t first = random() % count;
      const std::size_t last = first + 1 + random() % (count - first);
      std::int64_t busy = 0, best = -1;
      std::size_t longest = 0;
      for (std::size_t i = first; i < last; ++i) {
        const std::int64_t duration = lane.end(i) - lane.start(i);
        busy += duration;
        if (duration > best) best = duration, longest = i;
      }
      const Lane::Summary summary = lane.summary(first, last);
      ASSERT_EQ(summary.busy, busy) << count << " " << first << " " << last;
      ASSERT_EQ(summary.longest, longest) << count << " " << first << " " << last;
    }
  }
}

TEST(Lane, EventsOfManySecondsAreTold) {
  Lane lane;
  const std::int64_t second = 1'000'000'000;
  std::int64_t time = 1;
  for (std::uint32_t i = 0; i < 300; ++i) {
    const std::int64_t duration = (i == 200 ? 9 : 5) * second;
    lane.add(time, time + duration, i);
    time += duration;
  }
  lane.finish();
  EXPECT_EQ(lane.summary(0, 300).longest, 200U);
  EXPECT_EQ(lane.summary(0, 200).longest, 0U);
}

TEST(Lane, WhatIsVisibleIsEveryEventOnceAndInOrder) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const Lane lane = random_lane(random, 1 + random() % 3000);
    const std::int64_t end = lane.end(lane.size() - 1);
    const auto from =
        static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end + 1000)) - 500;
    const std::int64_t to = from + 1 + static_cast<std::int64_t>(random() % 20000);
    const std::int64_t grain = 1 + static_cast<std::int64_t>(random() % 400);
    std::vector<Lane::Piece> pieces;
    lane.visible(from, to, grain, pieces);
    std::size_t expected = 0;
    while (expected < lane.size() && lane.end(expected) <= from) ++expected;
    for (const Lane::Piece& piece : pieces) {
      ASSERT_EQ(piece.first, expected);
      ASSERT_GE(piece.count, 1U);
      expected += piece.count;
      ASSERT_EQ(piece.start, lane.start(piece.first));
      ASSERT_EQ(piece.end, lane.end(expected - 1));
      for (std::size_t i = piece.first; piece.count > 1 && i < expected; ++i)
        ASSERT_LT(lane.end(i) - lane.start(i), grain); // only what is short is put together
      ASSERT_EQ(piece.busy, lane.summary(piece.first, expected).busy);
      ASSERT_EQ(piece.longest, lane.summary(piece.first, expected).longest);
      ASSERT_EQ(piece.tag, lane.tag(piece.longest));
      if (piece.count > 1) {
        ASSERT_LT(lane.start(expected - 1) - piece.start, grain + grain / 4 + 1);
      }
    }
    ASSERT_TRUE(expected == lane.size() || lane.start(expected) >= to);
    ASSERT_LE(static_cast<std::int64_t>(pieces.size()), 2 * ((to - from) / grain + 2));
  }
}

TEST(Lane, AnEventIsFoundByAnyOfItsMoments) {
  Lane lane;
  lane.add(10, 20, 0);
  lane.add(20, 30, 1);
  lane.add(40, 41, 2);
  lane.finish();
  EXPECT_EQ(lane.at(9), 3U);
  EXPECT_EQ(lane.at(10), 0U);
  EXPECT_EQ(lane.at(20), 1U);
  EXPECT_EQ(lane.at(30), 3U);
  EXPECT_EQ(lane.at(40), 2U);
  EXPECT_EQ(lane.at(41), 3U);
}

TEST(LaneStack, NestedEventsLieBelowAndNothingOverlaps) {
  LaneStack stack(3);
  stack.add(10, 100, 0);
  stack.add(10, 50, 1);
  stack.add(20, 30, 2);
  stack.add(22, 25, 3); // no lane left
  stack.add(0, 5, 4);   // lost its start
  stack.add(60, 55, 5); // ends before it begins
  stack.add(60, 70, 6);
  EXPECT_EQ(stack.without_lane(), 1U);
  EXPECT_EQ(stack.without_time(), 2U);
  const std::vector<Lane> lanes = stack.finish();
  ASSERT_EQ(lanes.size(), 3U);
  EXPECT_EQ(lanes[0].size(), 1U);
  EXPECT_EQ(lanes[1].size(), 2U);
  EXPECT_EQ(lanes[1].event(1), 6U);
  EXPECT_EQ(lanes[2].event(0), 2U);
}

Trace many_streams(int streams, int kernels) {
  std::mt19937_64 random(4);
  Trace trace;
  trace.names = {"", "a_gemm_kernel", "b_kernel"};
  for (int i = 0; i < kernels; ++i)
    for (int stream = 0; stream < streams; ++stream) {
      DeviceEvent event;
      event.start = 1000 + i * 500 + static_cast<std::int64_t>(random() % 100);
      event.end = event.start + static_cast<std::int64_t>(random() % 390);
      event.name = static_cast<NameId>(1 + random() % 2);
      event.stream = static_cast<std::uint32_t>(stream);
      trace.device.push_back(event);
    }
  std::stable_sort(trace.device.begin(), trace.device.end(), [](const auto& a, const auto& b) {
    return a.start < b.start;
  });
  return trace;
}

TEST(Layout, NeverExceedsItsBudgetAtAnyZoom) {
  const TraceView view(many_streams(40, 3000));
  EXPECT_EQ(view.tracks().size(), 40U);
  for (std::int64_t span = 100; span < 40'000'000; span *= 3) {
    LayoutRequest request;
    request.from = 400'000;
    request.to = request.from + span;
    request.width = 1600;
    request.budget = 2500;
    const SideLayout layout = lay_out(view, request);
    EXPECT_LE(layout.boxes, request.budget) << span;
    std::size_t events = 0, boxes = 0;
    for (const TrackLayout& track : layout.tracks)
      for (const Box& box : track.boxes) {
        events += box.count;
        ++boxes;
        EXPECT_GE(box.x1, box.x0);
      }
    EXPECT_EQ(boxes, layout.boxes);
    std::size_t expected = 0;
    for (const DeviceEvent& event : view.trace().device)
      expected += event.end > request.from && event.start < request.to;
    EXPECT_EQ(events, expected) << span; // put together, never left out
  }
}

TEST(Layout, RowsOutOfSightAreNotLaidOut) {
  const TraceView view(many_streams(40, 50));
  LayoutRequest request{view.first_time(), view.last_time(), 800, 10, 15, 2500};
  const SideLayout layout = lay_out(view, request);
  EXPECT_LT(layout.tracks.size(), 8U);
  double rows = 0;
  for (const Track& track : view.tracks())
    rows += static_cast<double>(track.lanes.size()) + kTrackGap;
  EXPECT_NEAR(layout.rows, rows, 1e-9);
}

TEST(Lane, ThePyramidIsSmallBesideItsEvents) {
  std::mt19937_64 random(3);
  const Lane lane = random_lane(random, 100'000);
  EXPECT_LT(static_cast<double>(lane.bytes()) / 100'000, 24 * 1.15);
}

} // namespace lane_test
} // namespace assay
