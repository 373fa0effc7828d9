// What cuBLASLt is asked for by products whose algorithm is timed.
#include "kernels/products/timed_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/result.h"
#include "tests/kernels/fake_cublaslt.h"

namespace timed_products_test {

using assay::bf16;
using namespace assay::timed_products;
using namespace fake_cublaslt;

constexpr std::int64_t kRows = 8, kColumns = 16, kInner = 24, kGap = 8;

// An operand of a Shape with memory behind it, each of its rows followed by a gap.
struct Stored {
  std::int64_t height, width;
  bool transposed;
  std::vector<bf16> memory;

  Stored(std::int64_t rows, std::int64_t columns, bool swapped)
      : height(rows), width(columns), transposed(swapped),
        memory(normal((swapped ? columns : rows) * stride())) {}
  std::int64_t stride() const { return (transposed ? height : width) + kGap; }
  Operand operand() const { return {stride(), transposed}; }
  double at(std::int64_t i, std::int64_t j) const {
    return value(
        memory[static_cast<std::size_t>(transposed ? j * stride() + i : i * stride() + j)]);
  }
};

class TimedProducts : public testing::Test {
protected:
  static constexpr std::int64_t kOutStride = kColumns + kGap;

  void SetUp() override {
    answers = {};
    answers.device = fresh_device();
    answers.proposed = {0, 1, 2, 3}; // 0 cannot run
    answers.ms = {{1, 5.F}, {2, 3.F}, {3, 4.F}};
  }
  void multiply(bool add = false) {
    const Shape shape{kRows,
                      kColumns,
                      kInner,
                      left.operand(),
                      right.operand(),
                      kOutStride,
                      is_wide,
                      !bias.empty()};
    EXPECT_TRUE(takes(nullptr, shape));
    void* const out = is_wide ? static_cast<void*>(wide.data()) : narrow.data();
    run(nullptr,
        shape,
        {left.memory.data(), right.memory.data(), out, &answers, bias.data()},
        add,
        nullptr);
  }
  double result(std::int64_t i, std::int64_t j) const {
    const auto at = static_cast<std::size_t>(i * kOutStride + j);
    return is_wide ? wide[at] : value(narrow[at]);
  }
  double expected(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t k = 0; k < kInner; ++k) sum += left.at(i, k) * right.at(k, j);
    return sum;
  }

  Stored left{kRows, kInner, false}, right{kInner, kColumns, false};
  bool is_wide = false;
  std::vector<bf16> bias; // empty: none
  std::vector<float> wide = std::vector<float>(kRows * kOutStride);
  std::vector<bf16> narrow = std::vector<bf16>(kRows * kOutStride);
};

TEST_F(TimedProducts, MultiplyOperandsOfAnyOrientationAndStride) {
  for (const bool swap_left : {false, true})
    for (const bool swap_right : {false, true})
      for (const bool in_fp32 : {false, true}) {
        left = Stored(kRows, kInner, swap_left), right = Stored(kInner, kColumns, swap_right);
        is_wide = in_fp32;
        multiply();
        for (std::int64_t i = 0; i < kRows; ++i)
          for (std::int64_t j = 0; j < kColumns; ++j)
            expect_near(result(i, j), expected(i, j), "product");
      }
}

TEST_F(TimedProducts, AddABiasToEveryRow) {
  multiply(); // the choice of a product without one is another
  bias = normal(kColumns);
  multiply();
  EXPECT_EQ(answers.asked, 2);
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j)
      expect_near(result(i, j),
                  expected(i, j) + value(bias[static_cast<std::size_t>(j)]),
                  "biased product");
}

TEST_F(TimedProducts, AddToWhatIsThere) {
  is_wide = true;
  for (float& one : wide) one = 3;
  multiply(true);
  expect_near(result(1, 2), 3 + expected(1, 2), "sum");
}

// Every proposal runs in the first call; from then on the fastest alone, which also wrote the first
// result: two products of the same operands are the same bits.
TEST_F(TimedProducts, KeepTheFastestProposal) {
  multiply();
  EXPECT_THAT(answers.ran, testing::AllOf(testing::Contains(1U), testing::Contains(3U)));
  EXPECT_EQ(answers.ran.back(), 2U);
  answers.ran.clear();
  multiply();
  EXPECT_THAT(answers.ran, testing::ElementsAre(2U));
  EXPECT_EQ(answers.asked, 1);
}

TEST_F(TimedProducts, KeepTheFirstProposalIfNoneIsClearlyFaster) {
  answers.ms = {{1, 5.F}, {2, 4.98F}, {3, 4.96F}};
  multiply();
  EXPECT_EQ(answers.ran.back(), 1U);
}

// Sums would be added up once for each run.
TEST_F(TimedProducts, DoNotTimeSumsOrCapturedCalls) {
  multiply(true);
  answers.captures = true;
  multiply();
  EXPECT_THAT(answers.ran, testing::ElementsAre(1U, 1U));
  answers.captures = false;
  multiply();
  EXPECT_EQ(answers.ran.back(), 2U);
  answers.ran.clear();
  multiply(true);
  EXPECT_THAT(answers.ran, testing::ElementsAre(2U)) << "a sum takes the product's choice";
}

TEST_F(TimedProducts, WithoutAnAlgorithmAreRefused) {
  answers.heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
  const Shape shape{8, 8, 8, {8, false}, {8, false}, 8, false};
  EXPECT_FALSE(takes(nullptr, shape));
  EXPECT_THROW(run(nullptr, shape, {}, false, nullptr), assay::Failure);
}

} // namespace timed_products_test
