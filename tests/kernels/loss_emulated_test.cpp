// kernels/rowwise/loss.cuh on the CPU against plain fp64 loops.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/emulated_warp.h"

#include "kernels/rowwise/loss.cuh"

namespace assay::rowwise {
namespace loss_emulated_test {

constexpr bf16 kNan = 0x7fc0;
constexpr std::size_t kWidth = 40;
constexpr float kFactor = 3.F / 7; // no power of two

std::mt19937 generator(11);

bf16 half(double x) {
  return static_cast<bf16>(simt::bf16_bits(static_cast<float>(x)));
}
double value(bf16 x) {
  return simt::bf16_value(x);
}
std::vector<bf16> normal(std::size_t count, double scale) {
  std::normal_distribution<double> draw(0, scale);
  std::vector<bf16> x(count);
  for (bf16& element : x) element = half(draw(generator));
  return x;
}

struct Case {
  std::size_t columns;
  double scale; // of the weights: logits are about 6 times as large
  std::vector<std::int64_t> targets;
};

struct Rows {
  std::vector<bf16> logits; // rounded, padding NaN
  std::vector<double> losses, gradients;
};

// The kernel's function: softmax of the rounded logits, the target's in full.
struct Problem {
  const Case& c;
  std::size_t rows, stride;
  std::vector<bf16> x, weight;
  Rows expected;

  explicit Problem(const Case& given)
      : c(given), rows(given.targets.size()),
        stride(static_cast<std::size_t>(loss_stride(static_cast<std::int64_t>(given.columns)))),
        x(normal(rows * kWidth, 1)), weight(normal(given.columns * kWidth, given.scale)) {
    expected.logits.assign(rows * stride, kNan);
    expected.gradients.assign(rows * stride, 0);
    for (std::size_t r = 0; r < rows; ++r) expect_row(r);
  }

  double product(std::size_t row, std::size_t column) const {
    double sum = 0;
    for (std::size_t i = 0; i < kWidth; ++i)
      sum += value(x[row * kWidth + i]) * value(weight[column * kWidth + i]);
    return sum;
  }

  void expect_row(std::size_t r) {
    std::vector<double> y(c.columns);
    double sum = 0;
    for (std::size_t v = 0; v < c.columns; ++v) {
      expected.logits[r * stride + v] = half(product(r, v));
      y[v] = value(expected.logits[r * stride + v]);
    }
    if (c.targets[r] < 0) return expected.losses.push_back(0);
    const auto target = static_cast<std::size_t>(c.targets[r]);
    y[target] = product(r, target);
    for (const double each : y) sum += std::exp(each);
    expected.losses.push_back(std::log(sum) - y[target]);
    for (std::size_t v = 0; v < c.columns; ++v)
      expected.gradients[r * stride + v] = kFactor * (std::exp(y[v]) / sum - (v == target ? 1 : 0));
  }
};

struct Result {
  std::vector<bf16> logits;
  std::vector<float> losses;
};

template <bool kGradient, bool kStaged> Result run(const Problem& problem) {
  Result result{problem.expected.logits, std::vector<float>(problem.rows, NAN)};
  const Loss p{result.logits.data(),
               problem.x.data(),
               problem.weight.data(),
               problem.c.targets.data(),
               kGradient ? &kFactor : nullptr,
               result.losses.data(),
               static_cast<int>(problem.rows),
               static_cast<int>(problem.c.columns),
               static_cast<int>(problem.stride),
               static_cast<int>(kWidth)};
  emu::launch(dim3(static_cast<unsigned>(problem.rows)),
              kLossThreads,
              kStaged ? problem.stride * 2 : 0,
              [&] { loss<kGradient, kStaged>(p); });
  return result;
}

void expect_losses(const Problem& problem, const Result& seen) {
  for (std::size_t r = 0; r < problem.rows; ++r)
    EXPECT_NEAR(seen.losses[r], problem.expected.losses[r], 2e-5) << r;
}

void expect_gradients(const Problem& problem, const Result& seen) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < seen.logits.size(); ++i) {
    const double difference = value(seen.logits[i]) - problem.expected.gradients[i];
    ASSERT_TRUE(std::isfinite(difference)) << i;
    error += difference * difference, size += std::pow(problem.expected.gradients[i], 2);
    if (i % problem.stride >= problem.c.columns || problem.c.targets[i / problem.stride] < 0) {
      ASSERT_EQ(seen.logits[i], 0) << i;
    }
  }
  EXPECT_LE(std::sqrt(error), 3e-3 * std::sqrt(size) + 1e-6);
}

void check(const Case& c) {
  const Problem problem(c);
  for (const Result& seen : {run<true, true>(problem), run<true, false>(problem)}) {
    expect_losses(problem, seen);
    expect_gradients(problem, seen);
  }
  const Result losses = run<false, false>(problem);
  expect_losses(problem, losses);
  for (std::size_t i = 0; i < losses.logits.size(); ++i)
    if (i % problem.stride < c.columns) {
      ASSERT_EQ(losses.logits[i], problem.expected.logits[i]) << "written without being asked";
    }
}

TEST(LossEmulated, VocabularyOfWholeWords) {
  check({64, .2, {63, 0, 17, -100, 8}});
}
TEST(LossEmulated, VocabularyThatNeedsPadding) {
  check({61, .2, {60, 0, -100, 59}});
  check({1, .2, {0}});
}
// Every group of copies, the last of them not full; a thread adds up more than kLossWords words.
TEST(LossEmulated, VocabularyOfSeveralGroups) {
  check({20003, .05, {20002, 0, 8191}});
  check({75007, .05, {75006}});
}
// Logits of 60: exponentials need their largest taken out, and bf16 rounds them by a quarter.
TEST(LossEmulated, LargeLogits) {
  check({333, 10, {332, 100, 5, 6, 7, 8}});
}

// A value that is not finite reaches the loss and every column of its row, and no other row.
TEST(LossEmulated, NotFiniteStaysVisible) {
  const Case c{333, .2, {3, 4, 5}};
  for (const bf16 bad : {kNan, bf16{0x7f80}}) {
    Problem problem(c);
    problem.expected.logits[problem.stride + 200] = bad;
    for (const Result& seen : {run<true, true>(problem), run<true, false>(problem)}) {
      EXPECT_TRUE(std::isnan(seen.losses[1]));
      EXPECT_NEAR(seen.losses[0], problem.expected.losses[0], 1e-4);
      for (std::size_t v = 0; v < c.columns; ++v) {
        ASSERT_TRUE(std::isnan(value(seen.logits[problem.stride + v]))) << v;
        ASSERT_TRUE(std::isfinite(value(seen.logits[v]))) << v;
      }
    }
  }
}

} // namespace loss_emulated_test
} // namespace assay::rowwise
