#include "experiments/engine/warmup.h"

#include <gtest/gtest.h>

namespace assay {
namespace warmup_test {

std::vector<VisitRow> round_of(double ns) {
  VisitRow a, b;
  a.steps = b.steps = 2;
  a.wall_ns = b.wall_ns = static_cast<std::int64_t>(2 * ns);
  return {a, b};
}

// Adds rounds until it ends; returns how many that took, and the state.
template <class Time> std::pair<int, WarmUp::State> run(WarmUp warmup, Time time) {
  int round = 0;
  while (warmup.state() == WarmUp::State::Warming && round < 1000)
    warmup.add(round_of(time(round++)));
  return {round, warmup.state()};
}

TEST(WarmUp, FlatTimesAreSteadyAfterTwoWindows) {
  EXPECT_EQ(run(WarmUp(false), [](int) { return 1e6; }), std::pair(10, WarmUp::State::Steady));
}

TEST(WarmUp, AFallThatEndsIsSteadyLater) {
  const auto time = [](int round) { return round < 5 ? 2e6 : 1e6; };
  EXPECT_EQ(run(WarmUp(false), time), std::pair(15, WarmUp::State::Steady));
}

TEST(WarmUp, ACpuThatNeverSettlesIsCapped) {
  const auto time = [](int round) { return 1e6 * (1 + round / 5); };
  EXPECT_EQ(run(WarmUp(false), time), std::pair(15, WarmUp::State::Capped));
}

// 1 % between windows: within the CPU's tolerance of 2 %, not within the GPU's 0.5 %.
TEST(WarmUp, TheGpuIsStricter) {
  const auto time = [](int round) { return 1e6 * (1 + 0.01 * (round / 5 % 2)); };
  EXPECT_EQ(run(WarmUp(false), time), std::pair(10, WarmUp::State::Steady));
  EXPECT_EQ(run(WarmUp(true), time), std::pair(60, WarmUp::State::Capped));
}

// A change of 4 % inside noise whose standard error is larger is no trend.
TEST(WarmUp, NoiseIsNotATrend) {
  const double noisy[] = {1.0, 1.3, 0.8, 1.2, 0.7, 1.04, 1.35, 0.8, 1.25, 0.75};
  EXPECT_EQ(run(WarmUp(false), [&](int round) { return 1e6 * noisy[round]; }),
            std::pair(10, WarmUp::State::Steady));
}

TEST(WarmUp, OneSlowRoundDoesNotMoveTheRobustMean) {
  const auto time = [](int round) { return round == 7 ? 9e6 : 1e6; };
  EXPECT_EQ(run(WarmUp(false), time), std::pair(10, WarmUp::State::Steady));
}

} // namespace warmup_test
} // namespace assay
