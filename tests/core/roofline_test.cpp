#include "core/statistics/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay {
namespace roofline_test {

// 1 PFLOP/s, 100 TFLOP/s in fp32, 2 PFLOP/s in FP8, 4 TB/s, 5 us a launch.
constexpr MeasuredPeaks kPeaks{1e15, 1e14, 2e15, 4e12, 5e-6};

// matmul: 1e12 / 1e15 = 1 ms > 1e9 / 4e12 = .25 ms, compute. update: 8e9 / 4e12 = 2 ms, bytes.
const std::vector<OpCost> kOps{{"matmul", 1e12, 1e9, 10, Peak::Compute},
                               {"update", 1e6, 8e9, 90, Peak::Compute}};

TEST(Roofline, EachOperationIsBoundByItself) {
  const Roofline step_floor = roofline(kOps, kPeaks);
  EXPECT_DOUBLE_EQ(step_floor.compute_seconds, 1e-3);
  EXPECT_DOUBLE_EQ(step_floor.bytes_seconds, 2e-3);
  EXPECT_DOUBLE_EQ(step_floor.seconds, 3e-3); // not max(sum, sum) = 2.25 ms
  EXPECT_DOUBLE_EQ(step_floor.launch_seconds, 100 * 5e-6);
  EXPECT_DOUBLE_EQ(step_floor.floor(), 3e-3);
  EXPECT_DOUBLE_EQ(roofline(kOps, kPeaks, 1000).floor(), 5e-3) << "counted in a trace";
  EXPECT_DOUBLE_EQ(total_flops(kOps), 1.000001e12);
  EXPECT_EQ(total_kernels(kOps), 100);
}

TEST(Roofline, EveryTypeHasItsOwnPeak) {
  std::vector<OpCost> ops = kOps;
  ops[0].peak = Peak::Fp32; // 1e12 / 1e14
  EXPECT_DOUBLE_EQ(roofline(ops, kPeaks).compute_seconds, 10e-3);
  ops[0].peak = Peak::Fp8; // 1e12 / 2e15
  EXPECT_DOUBLE_EQ(roofline(ops, kPeaks).compute_seconds, 0.5e-3);
}

TEST(Roofline, WhatBinds) {
  const Roofline bytes = roofline(kOps, kPeaks);
  EXPECT_EQ(bottleneck_of(bytes), Bottleneck::Bytes);
  EXPECT_EQ(bottleneck_of(roofline({kOps[0]}, kPeaks)), Bottleneck::Compute);
  const Roofline launches = roofline(kOps, kPeaks, 1000); // 5 ms against 3 ms
  EXPECT_EQ(bottleneck_of(launches), Bottleneck::LaunchOverhead);
  // A busy device: what it works at.
  EXPECT_EQ(bottleneck_of(bytes, MeasuredStep{5e-3, 4e-3}), Bottleneck::Bytes);
  // For more than twice the floor: its kernels.
  EXPECT_EQ(bottleneck_of(bytes, MeasuredStep{9e-3, 7e-3}), Bottleneck::Kernels);
  EXPECT_EQ(bottleneck_of(launches, MeasuredStep{9e-3, 7e-3}), Bottleneck::Kernels)
      << "they wait for none";
  // An idle one: launching explains it, or the host does.
  EXPECT_EQ(bottleneck_of(launches, MeasuredStep{8e-3, 3e-3}), Bottleneck::LaunchOverhead);
  EXPECT_EQ(bottleneck_of(bytes, MeasuredStep{8e-3, 3e-3}), Bottleneck::Host);
  EXPECT_EQ(bottleneck_of(launches, MeasuredStep{105, 3e-3}), Bottleneck::Host)
      << "a loop on the host";
  // Not traced: idleness is not known, and not guessed.
  EXPECT_EQ(bottleneck_of(bytes, MeasuredStep{5e-3, std::nullopt}), Bottleneck::Bytes);
  EXPECT_EQ(bottleneck_of(bytes, MeasuredStep{7e-3, std::nullopt}), std::nullopt);
}

TEST(Roofline, Utilization) {
  // 6 x 124e6 x 178e3 / 312e12 = 42.4 %: GPT-2 124M on an A100.
  EXPECT_NEAR(model_flops_utilization(6 * 124e6 * 178e3, 1, 312e12), 0.4245, 1e-4);
}

} // namespace roofline_test
} // namespace assay
