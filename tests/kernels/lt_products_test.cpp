// What cuBLASLt is asked for by products that work on their result.
#include "kernels/products/lt_products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/result.h"
#include "tests/kernels/fake_cublaslt.h"

namespace lt_products_test {

using assay::bf16;
using namespace assay::lt_products;
using namespace fake_cublaslt;
using testing::HasSubstr;

constexpr std::int64_t kRows = 11, kColumns = 16, kInner = 8;

class LtProducts : public testing::Test {
protected:
  void SetUp() override {
    answers = {};
    answers.device = fresh_device();
  }
  void run_form(Form form) {
    Pointers p;
    p.left = left.data(), p.right = right.data(), p.workspace = &answers;
    p.out = form == Form::LeftSum ? static_cast<void*>(wide.data()) : out.data();
    if (form != Form::LeftSum) p.gelu_in = gelu_in.data();
    if (form == Form::LeftSum)
      p.bias = wide_sum.data();
    else if (form != Form::GeluGradient)
      p.bias = bias.data();
    const Shape shape{form, kRows, kColumns, kInner};
    EXPECT_EQ(workspace_bytes(nullptr, shape), kWorkspace);
    run(nullptr, shape, p, nullptr);
    EXPECT_TRUE(answers.ran.empty() || answers.ran.back() == 77);
  }
  // Row-major.
  static double at(const std::vector<bf16>& x, std::int64_t i, std::int64_t j, std::int64_t width) {
    return value(x[static_cast<std::size_t>(i * width + j)]);
  }
  static std::size_t place(std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * kColumns + j);
  }
  std::vector<bf16> left = normal(kRows * kInner), right = normal(kInner * kColumns),
                    gelu_in = normal(kRows * kColumns), bias = normal(kColumns),
                    out = std::vector<bf16>(kRows * kColumns);
  std::vector<float> wide = std::vector<float>(kRows * kColumns),
                     wide_sum = std::vector<float>(kRows);
};

TEST_F(LtProducts, BiasAndGeluOfRowsTimesRows) {
  run_form(Form::BiasGelu);
  for (std::int64_t i = 0; i < kRows; ++i)
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double x = value(bias[static_cast<std::size_t>(j)]);
      for (std::int64_t k = 0; k < kInner; ++k)
        x += at(left, i, k, kInner) * at(right, j, k, kInner);
      expect_near(value(gelu_in[place(i, j)]), x, "GELU's input");
      expect_near(value(out[place(i, j)]), gelu(x), "GELU");
    }
}

TEST_F(LtProducts, GelusGradientAndItsSum) {
  for (const Form form : {Form::GeluGradient, Form::GeluGradientSum}) {
    const std::vector<bf16> before = bias;
    run_form(form);
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (std::int64_t i = 0; i < kRows; ++i) {
        double x = 0;
        for (std::int64_t k = 0; k < kInner; ++k)
          x += at(left, i, k, kInner) * at(right, k, j, kColumns);
        x *= gelu_slope(value(gelu_in[place(i, j)]));
        sum += x;
        expect_near(value(out[place(i, j)]), x, "gradient");
      }
      const auto column = static_cast<std::size_t>(j);
      if (form == Form::GeluGradient)
        EXPECT_EQ(bias[column], before[column]);
      else
        expect_near(value(bias[column]), sum, "sum");
    }
  }
}

TEST_F(LtProducts, LeftTransposedTimesRightAndLeftsSum) {
  run_form(Form::LeftSum);
  for (std::int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < kInner; ++k) sum += at(left, k, i, kRows);
    expect_near(wide_sum[static_cast<std::size_t>(i)], sum, "sum");
    for (std::int64_t j = 0; j < kColumns; ++j) {
      double x = 0;
      for (std::int64_t k = 0; k < kInner; ++k)
        x += at(left, k, i, kRows) * at(right, k, j, kColumns);
      expect_near(wide[place(i, j)], x, "product");
    }
  }
}

// A capture must not meet a choice: one for all calls of a shape, one for each device and form.
TEST_F(LtProducts, ChoosesOnceForAShapeAndADevice) {
  for (int i = 0; i < 3; ++i) run_form(Form::BiasGelu);
  EXPECT_EQ(answers.asked, 1);
  run_form(Form::GeluGradient);
  run_form(Form::GeluGradientSum);
  EXPECT_EQ(answers.asked, 3);
  answers.device = 1000;
  run_form(Form::BiasGelu);
  EXPECT_EQ(answers.asked, 4);
}

TEST_F(LtProducts, AShapeWithoutAnAlgorithmHasNoWorkspaceAndDoesNotRun) {
  const Shape shape{Form::LeftSum, 8, 16, 24};
  answers.heuristic = CUBLAS_STATUS_NOT_SUPPORTED;
  EXPECT_EQ(workspace_bytes(nullptr, shape), std::nullopt);
  answers.heuristic = CUBLAS_STATUS_SUCCESS;
  EXPECT_EQ(workspace_bytes(nullptr, shape), std::nullopt) << "asked again";
  EXPECT_THROW(run(nullptr, shape, {}, nullptr), assay::Failure);
  answers.proposed = {0}; // which cannot run
  EXPECT_EQ(workspace_bytes(nullptr, {Form::LeftSum, 16, 16, 24}), std::nullopt);
  answers.proposed = {};
  EXPECT_EQ(workspace_bytes(nullptr, {Form::LeftSum, 24, 16, 24}), std::nullopt);
}

TEST_F(LtProducts, AFailureNamesTheCallTheShapeAndTheReason) {
  const auto message = [](auto call) {
    try {
      call();
    } catch (const assay::Failure& failure) {
      return std::string(failure.what());
    }
    return std::string("no failure");
  };
  answers.heuristic = CUBLAS_STATUS_INVALID_VALUE;
  EXPECT_THAT(message([] {
                (void)workspace_bytes(nullptr, {Form::GeluGradientSum, 8, 16, 40});
              }),
              testing::AllOf(HasSubstr("cublasLtMatmulAlgoGetHeuristic failed"),
                             HasSubstr("8 x 16 over 40"),
                             HasSubstr("unsupported value")));
  answers.heuristic = CUBLAS_STATUS_SUCCESS;
  answers.product = CUBLAS_STATUS_EXECUTION_FAILED;
  EXPECT_THAT(message([&] { run_form(Form::BiasGelu); }),
              testing::AllOf(HasSubstr("cublasLtMatmul failed"), HasSubstr("11 x 16 over 8")));
}

} // namespace lt_products_test
