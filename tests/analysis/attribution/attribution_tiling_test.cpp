#include <gtest/gtest.h>

#include <random>

#include "experiments/attribution/attribution.h"
#include "experiments/attribution/tiling.h"
#include "tests/analysis/attribution/trace_builder.h"

namespace assay {
namespace attribution_tiling_test {

using synthetic::kAutograd;
using synthetic::kMicro;
using synthetic::TraceBuilder;

std::int64_t us(const StepTiling& tiling, Stage stage) {
  return tiling.stage_ns[static_cast<std::size_t>(stage)] / kMicro;
}

// Tiles are in order, touch, and sum to the step, as a whole and by stage.
void expect_exact(const StepTiling& tiling) {
  StageTimes by_stage{};
  std::int64_t at = tiling.start;
  for (const StageSegment& segment : tiling.segments) {
    ASSERT_EQ(segment.start, at);
    ASSERT_GT(segment.end, segment.start);
    by_stage[static_cast<std::size_t>(segment.stage)] += segment.end - segment.start;
    at = segment.end;
  }
  ASSERT_EQ(at, tiling.end);
  ASSERT_EQ(by_stage, tiling.stage_ns);
}

TEST(TileHost, InnermostStageSpanHolds) {
  TraceBuilder b;
  b.step(100, 200, 0, 0);
  b.span("step", 101, 199);
  b.span("forward", 110, 140);
  b.span("attention/varlen", 112, 120); // no stage of its own
  b.span("backward", 145, 170);
  b.span("optimizer", 170, 180);
  b.span("scaler/unscale", 171, 175);
  b.span("ema/update", 185, 195);
  b.span("forward", 150, 160, 1); // another thread's
  const std::vector<StepTiling> tilings = tile_steps(b.take());
  ASSERT_EQ(tilings.size(), 1u);
  expect_exact(tilings[0]);
  EXPECT_EQ(us(tilings[0], Stage::Forward), 30);
  EXPECT_EQ(us(tilings[0], Stage::Backward), 25);
  EXPECT_EQ(us(tilings[0], Stage::Optimizer), 10);
  EXPECT_EQ(us(tilings[0], Stage::Ema), 10);
  EXPECT_EQ(us(tilings[0], Stage::HostGap), 25);
  EXPECT_EQ(us(tilings[0], Stage::Idle), 0);
  EXPECT_EQ(tilings[0].wall_ns(), 100 * kMicro);
  EXPECT_EQ(tilings[0].host_ns, 100 * kMicro);
  EXPECT_EQ(tilings[0].device_busy_ns, 0);
}

TEST(TileHost, EvaluationHoldsItsEmaSwapApart) {
  TraceBuilder b;
  b.step(0, 100, 0, 0);
  b.span("evaluate", 0, 100);
  b.span("ema/pointer_swap", 10, 20);
  b.span("data_wait", 30, 35);
  b.span("host_to_device", 35, 40);
  const auto tilings = tile_steps(b.take());
  expect_exact(tilings[0]);
  EXPECT_EQ(us(tilings[0], Stage::Evaluation), 80);
  EXPECT_EQ(us(tilings[0], Stage::Ema), 10);
  EXPECT_EQ(us(tilings[0], Stage::DataWait), 5);
  EXPECT_EQ(us(tilings[0], Stage::HostToDevice), 5);
}

TEST(TileHost, RangesOfOtherDomainsAreNoStages) {
  TraceBuilder b;
  b.step(0, 100, 0, 0);
  b.foreign_range("forward", 10, 90);
  const auto tilings = tile_steps(b.take());
  EXPECT_EQ(us(tilings[0], Stage::Forward), 0);
  EXPECT_EQ(us(tilings[0], Stage::HostGap), 100);
}

// Spans of any shape, damaged ones too, and steps in a row.
TEST(TileHost, AnySpansTileWithoutHoles) {
  std::mt19937_64 random(7);
  const char* names[] = {"forward", "backward", "optimizer", "ema/update", "evaluate", "step", "x"};
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int trial = 0; trial < 300; ++trial) {
    TraceBuilder b;
    int at = 1;
    for (int i = 0; i < 5; ++i) {
      const int start = at + pick(0, 5), end = start + pick(0, 60);
      b.step(start, end, 0, i);
      at = end;
    }
    for (int i = pick(0, 30); i > 0; --i) {
      const int start = pick(0, at);
      b.span(names[pick(0, 6)], start, start + pick(-2, 80), pick(0, 1));
    }
    for (const StepTiling& tiling : tile_steps(b.take())) {
      expect_exact(tiling);
      EXPECT_EQ(tiling.wall_ns(), tiling.step.end - tiling.step.start);
    }
  }
}

// One visit of two steps. The host runs ahead: step 0's kernels end after the host left it.
Trace two_steps_on_a_gpu() {
  TraceBuilder b("a", true);
  b.step(100, 150, 0, 0);
  b.step(150, 200, 0, 1);
  for (const int at : {100, 150}) {
    b.span("step", at, at + 50);
    b.span("forward", at + 5, at + 15);
    b.span("backward", at + 15, at + 30);
    b.span("optimizer", at + 30, at + 45);
  }
  b.copy(1, 101, 104, 110);             // host to device, before the first kernel
  b.kernel("fwd", 106, 110, 150);       // launched in forward
  b.kernel("bwd", 116, 150, 200, 7, 1); // launched by autograd's thread inside backward
  b.kernel("opt", 131, 205, 220);       // 5 us hole before it
  b.kernel("fwd", 156, 220, 260);
  b.kernel("bwd", 166, 260, 310, 7, 1);
  b.kernel("opt", 181, 310, 325);
  b.call("cudaDeviceSynchronize", 201, 326);
  return b.take();
}

TEST(TileDevice, KernelsBelongToTheStageAndStepOfTheirLaunch) {
  const auto tilings = tile_steps(two_steps_on_a_gpu());
  ASSERT_EQ(tilings.size(), 2u);
  for (const StepTiling& tiling : tilings) expect_exact(tiling);
  const StepTiling &first = tilings[0], &second = tilings[1];
  EXPECT_EQ(first.start, 100 * kMicro); // nothing before it: the host's start
  EXPECT_EQ(first.end, 220 * kMicro);   // its last kernel, 70 us after the host left it
  EXPECT_EQ(us(first, Stage::HostGap), 4);
  EXPECT_EQ(us(first, Stage::HostToDevice), 6);
  EXPECT_EQ(us(first, Stage::Forward), 40);
  EXPECT_EQ(us(first, Stage::Backward), 50);
  EXPECT_EQ(us(first, Stage::Optimizer), 15);
  EXPECT_EQ(us(first, Stage::Idle), 5); // the host waits in cudaDeviceSynchronize
  EXPECT_EQ(first.host_ns, 50 * kMicro);
  EXPECT_EQ(first.device_busy_ns, 111 * kMicro);
  EXPECT_EQ(second.start, first.end);
  EXPECT_EQ(second.end, 325 * kMicro);
  EXPECT_EQ(us(second, Stage::Forward), 40);
  EXPECT_EQ(us(second, Stage::Optimizer), 15);
}

TEST(TileDevice, GapsAreTheHostsWhileItWorksInsideTheStep) {
  TraceBuilder b("a", true);
  b.step(100, 200, 0, 0);
  b.span("forward", 100, 190);
  b.span("data_wait", 160, 165);
  b.kernel("k", 101, 110, 120);
  b.call("cudaStreamSynchronize", 130, 140); // the host waits
  b.kernel("k", 168, 170, 180);
  const auto tilings = tile_steps(b.take());
  expect_exact(tilings[0]);
  EXPECT_EQ(tilings[0].end, 200 * kMicro); // the host's tail after the last kernel counts
  EXPECT_EQ(us(tilings[0], Stage::Forward), 20);
  EXPECT_EQ(us(tilings[0], Stage::Idle), 10);
  EXPECT_EQ(us(tilings[0], Stage::DataWait), 5);
  EXPECT_EQ(us(tilings[0], Stage::HostGap), 100 - 20 - 10 - 5);
}

TEST(TileDevice, ComputeHidesCommunicationHidesCopies) {
  TraceBuilder b("a", true);
  b.step(100, 200, 0, 0);
  b.span("backward", 100, 200);
  b.kernel("gemm", 101, 110, 140);
  b.kernel("ncclDevKernel_AllReduce_Sum_bf16", 102, 120, 170, 9);
  b.copy(1, 103, 130, 190);
  b.copy(8, 104, 175, 180); // device to device: compute
  const auto tilings = tile_steps(b.take());
  expect_exact(tilings[0]);
  EXPECT_EQ(us(tilings[0], Stage::Backward), 30 + 5);
  EXPECT_EQ(us(tilings[0], Stage::ExposedComm), 30);
  EXPECT_EQ(us(tilings[0], Stage::HostToDevice), 5 + 10);
  EXPECT_EQ(us(tilings[0], Stage::HostGap), 10 + 10);
  EXPECT_EQ(tilings[0].device_busy_ns, 80 * kMicro);
}

TEST(TileDevice, ADrainStartsTheNextStepAtTheHost) {
  TraceBuilder b("a", true);
  b.step(100, 110, 0, 0);
  b.span("forward", 100, 110);
  b.kernel("k", 101, 105, 150);
  b.call("cudaDeviceSynchronize", 111, 151);
  b.step(160, 170, 0, 1); // after a drain
  b.span("forward", 160, 170);
  b.kernel("k", 161, 165, 200);
  b.step(171, 180, 0, 2); // runs on
  b.span("forward", 171, 180);
  b.kernel("k", 172, 205, 230);
  b.step(300, 310, 1, 0); // the next round's visit
  b.kernel("k", 301, 302, 305);
  const auto tilings = tile_steps(b.take());
  EXPECT_EQ(tilings[0].end, 150 * kMicro);
  EXPECT_EQ(tilings[1].start, 160 * kMicro);
  EXPECT_EQ(tilings[2].start, 200 * kMicro);
  EXPECT_EQ(us(tilings[2], Stage::Idle), 5); // the host has left its last step
  EXPECT_EQ(tilings[3].start, 300 * kMicro);
  EXPECT_EQ(tilings[3].end, 310 * kMicro);
}

// One launch inside "step", five nodes: their stages are those of the capture.
Trace replayed_trace(const std::string& table) {
  TraceBuilder b("a", true);
  b.info("graph_nodes", table);
  for (int position = 0; position < 2; ++position) {
    const std::int64_t at = 100 + 100 * position;
    b.step(at, at + 20, 0, position);
    b.replay(at + 5, at + 10, {"f", "f", "b", "o", "e"});
  }
  return b.take();
}

TEST(TileDevice, NodesOfAGraphBelongToTheStageOfTheirCapture) {
  const auto tilings = tile_steps(replayed_trace(
      R"([[["forward>latent_attention", 2], ["backward", 1], ["optimizer", 1], ["ema/update", 1]]])"));
  for (const StepTiling& tiling : tilings) {
    expect_exact(tiling);
    EXPECT_EQ(us(tiling, Stage::Forward), 20);
    EXPECT_EQ(us(tiling, Stage::Backward), 10);
    EXPECT_EQ(us(tiling, Stage::Optimizer), 10);
    EXPECT_EQ(us(tiling, Stage::Ema), 10);
    EXPECT_EQ(us(tiling, Stage::Graph), 0);
  }
}

// Never by guess: the launch lies in no stage's span, and neither does the end of a replay.
TEST(TileDevice, NodesThatNoTableNamesAreTheGraphs) {
  for (const char* table : {"", // none
                            "not JSON",
                            R"([[["forward", 4]]])", // another number of nodes
                            R"([[["forward", "5"]]])",
                            R"([[["forward", -5], ["backward", 10]]])",
                            R"([[["forward", 5]], [["backward", 5]]])"}) { // two graphs that differ
    const auto tilings = tile_steps(replayed_trace(table));
    expect_exact(tilings[0]);
    EXPECT_EQ(us(tilings[0], Stage::Graph), 50) << table;
    EXPECT_EQ(us(tilings[0], Stage::Forward), 0) << table;
  }
  const auto alike =
      tile_steps(replayed_trace(R"([[["forward", 5]], [["forward", 3], ["forward>head", 2]]])"));
  EXPECT_EQ(us(alike[0], Stage::Forward), 50);
  const auto outside = tile_steps(replayed_trace(R"([[["forward", 4], ["", 1]]])"));
  EXPECT_EQ(us(outside[0], Stage::Forward), 40);
  EXPECT_EQ(us(outside[0], Stage::Graph), 10);
}

TEST(TileDevice, AKernelWithoutItsLaunchGoesWhereItsStreamWas) {
  TraceBuilder b("a", true);
  b.step(100, 150, 0, 0);
  b.span("backward", 100, 150);
  b.kernel("k", 120, 125, 180);
  b.unlaunched("lost", 180, 190); // runs after the host left: by time it would be in no step
  const auto tilings = tile_steps(b.take());
  EXPECT_EQ(us(tilings[0], Stage::Backward), 65);
}

TEST(TileDevice, EventsThatLostATimeStampTakeNoTime) {
  TraceBuilder b("a", true);
  b.step(100, 150, 0, 0);
  b.kernel("k", 101, 0, 140);
  b.kernel("k", 102, 120, 110);
  b.kernel("k", 103, 120, 130);
  const auto tilings = tile_steps(b.take());
  expect_exact(tilings[0]);
  EXPECT_EQ(tilings[0].device_busy_ns, 10 * kMicro);
}

TEST(TileDevice, AnyKernelsTileWithoutHolesOrOverlap) {
  std::mt19937_64 random(11);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const char* names[] = {"gemm", "ncclKernel", "elementwise"};
  for (int trial = 0; trial < 300; ++trial) {
    TraceBuilder b("a", true);
    int host = 100;
    for (int i = 0; i < 6; ++i) {
      const int end = host + pick(1, 60);
      b.step(host, end, i / 3, i % 3);
      b.span("step", host, end);
      b.span("forward", host, host + (end - host) / 2);
      b.span("backward", host + (end - host) / 2, end);
      for (int k = pick(0, 8); k > 0; --k) {
        const int launch = pick(host, end), start = launch + pick(0, 90);
        if (pick(0, 3) == 0)
          b.copy(pick(0, 1) == 0 ? 1 : 8, launch, start, start + pick(-1, 30));
        else
          b.kernel(names[pick(0, 2)],
                   launch,
                   start,
                   start + pick(-1, 30),
                   static_cast<unsigned>(7 + pick(0, 2)),
                   pick(0, 1));
      }
      if (pick(0, 3) == 0) b.call("cudaStreamSynchronize", end, end + pick(0, 80));
      host = end + pick(0, 20);
    }
    const Trace trace = b.take();
    const TiledTrace tiled = tile_trace(trace);
    std::vector<std::int64_t> shares(tiled.steps.size());
    for (const DeviceShare& share : tiled.shares) shares[share.step] += share.ns;
    for (std::size_t i = 0; i < tiled.steps.size(); ++i) {
      expect_exact(tiled.steps[i]);
      EXPECT_EQ(shares[i], tiled.steps[i].device_busy_ns);
      if (i > 0) {
        EXPECT_GE(tiled.steps[i].start, tiled.steps[i - 1].end);
      }
    }
  }
}

} // namespace attribution_tiling_test
} // namespace assay
