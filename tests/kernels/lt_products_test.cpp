// What cuBLASLt is asked for, without a GPU: its descriptors are real, its heuristics and products
// are plain loops here that do what its documentation says of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/result.h"
#include "kernels/bf16.h"
#include "kernels/products/lt_products.h"

namespace {

using assay::bf16;
using namespace assay::lt_products;
using testing::HasSubstr;

struct Answers {
  cublasStatus_t heuristic = CUBLAS_STATUS_SUCCESS, product = CUBLAS_STATUS_SUCCESS;
  int found = 2; // algorithms; the first cannot run
  int device = 0;
  int asked = 0;
};
Answers answers;

constexpr std::size_t kWorkspace = 4096;
constexpr std::uint64_t kAlgorithm = 77;

bf16 rounded(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
double value(bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

template <class T> T asked(cublasLtMatmulDesc_t of, cublasLtMatmulDescAttributes_t what) {
  T result{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(of, what, &result, sizeof(T), &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof(T));
  return result;
}

// A column-major matrix of which op() is asked.
struct Matrix {
  const void* memory = nullptr;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 0;
  std::int32_t type = 0;
  bool transposed = false;

  Matrix(const void* data, cublasLtMatrixLayout_t layout, bool op) : memory(data), transposed(op) {
    const auto get = [&](cublasLtMatrixLayoutAttribute_t what, auto& to) {
      std::size_t written = 0;
      EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, what, &to, sizeof(to), &written),
                CUBLAS_STATUS_SUCCESS);
    };
    get(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
    get(CUBLASLT_MATRIX_LAYOUT_COLS, columns);
    get(CUBLASLT_MATRIX_LAYOUT_LD, ld);
    get(CUBLASLT_MATRIX_LAYOUT_TYPE, type);
    EXPECT_GE(ld, static_cast<std::int64_t>(rows));
  }
  std::uint64_t height() const { return transposed ? columns : rows; } // of op(matrix)
  std::uint64_t width() const { return transposed ? rows : columns; }
  double at(std::uint64_t i, std::uint64_t j) const {
    if (transposed) std::swap(i, j);
    return value(static_cast<const bf16*>(memory)[i + j * static_cast<std::uint64_t>(ld)]);
  }
};

} // namespace

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  *device = answers.device;
  return cudaSuccess;
}

cublasStatus_t CUBLASWINAPI
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t,
                               cublasLtMatmulDesc_t product,
                               cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t,
                               cublasLtMatrixLayout_t,
                               cublasLtMatmulPreference_t preference,
                               int most,
                               cublasLtMatmulHeuristicResult_t results[],
                               int* count) {
  ++answers.asked;
  std::uint32_t schemes = 0;
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference,
                                                 CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                 &schemes,
                                                 sizeof(schemes),
                                                 &written),
            CUBLAS_STATUS_SUCCESS);
  const auto epilogue = asked<std::uint32_t>(product, CUBLASLT_MATMUL_DESC_EPILOGUE);
  EXPECT_EQ(schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 0U);
  EXPECT_EQ((schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0,
            epilogue == CUBLASLT_EPILOGUE_BGRADB);
  *count = answers.found;
  for (int i = 0; i < answers.found && i < most; ++i) {
    results[i].state = i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = kWorkspace;
    results[i].algo.data[0] = kAlgorithm;
  }
  return answers.heuristic;
}

cublasStatus_t CUBLASWINAPI cublasLtMatmul(cublasLtHandle_t,
                                           cublasLtMatmulDesc_t product,
                                           const void* alpha,
                                           const void* a_memory,
                                           cublasLtMatrixLayout_t a_layout,
                                           const void* b_memory,
                                           cublasLtMatrixLayout_t b_layout,
                                           const void* beta,
                                           const void*,
                                           cublasLtMatrixLayout_t,
                                           void* out,
                                           cublasLtMatrixLayout_t out_layout,
                                           const cublasLtMatmulAlgo_t* algorithm,
                                           void* workspace,
                                           std::size_t workspace_bytes,
                                           cudaStream_t) {
  if (answers.product != CUBLAS_STATUS_SUCCESS) return answers.product;
  EXPECT_EQ(*static_cast<const float*>(alpha), 1);
  EXPECT_EQ(*static_cast<const float*>(beta), 0);
  EXPECT_EQ(algorithm->data[0], kAlgorithm);
  EXPECT_EQ(workspace_bytes, kWorkspace);
  EXPECT_NE(workspace, nullptr);
  const auto op = [&](cublasLtMatmulDescAttributes_t what) {
    return asked<cublasOperation_t>(product, what) == CUBLAS_OP_T;
  };
  const Matrix a(a_memory, a_layout, op(CUBLASLT_MATMUL_DESC_TRANSA)),
      b(b_memory, b_layout, op(CUBLASLT_MATMUL_DESC_TRANSB)), d(out, out_layout, false);
  EXPECT_EQ(a.type, CUDA_R_16BF);
  EXPECT_EQ(b.type, CUDA_R_16BF);
  if (a.width() != b.height() || a.height() != d.rows || b.width() != d.columns)
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto epilogue = asked<std::uint32_t>(product, CUBLASLT_MATMUL_DESC_EPILOGUE);
  auto* const bias = asked<void*>(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  auto* const aux = asked<bf16*>(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
  const auto aux_ld = asked<std::int64_t>(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
  std::vector<double> sums(d.rows);
  for (std::uint64_t j = 0; j < d.columns; ++j) {
    double sum_of_b = 0;
    for (std::uint64_t k = 0; k < b.height(); ++k) sum_of_b += b.at(k, j);
    for (std::uint64_t i = 0; i < d.rows; ++i) {
      const std::uint64_t at = i + j * static_cast<std::uint64_t>(d.ld),
                          at_aux = i + j * static_cast<std::uint64_t>(aux_ld);
      double x = 0;
      for (std::uint64_t k = 0; k < a.width(); ++k) x += a.at(i, k) * b.at(k, j);
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        x += value(static_cast<const bf16*>(bias)[i]);
        aux[at_aux] = rounded(x);
        x = gelu(x);
      }
      if (epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
        x *= gelu_slope(value(aux[at_aux]));
      sums[i] += x;
      if (d.type == CUDA_R_32F)
        static_cast<float*>(out)[at] = static_cast<float>(x);
      else
        static_cast<bf16*>(out)[at] = rounded(x);
    }
    if (epilogue == CUBLASLT_EPILOGUE_BGRADB)
      static_cast<float*>(bias)[j] = static_cast<float>(sum_of_b);
  }
  if (epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
    for (std::size_t i = 0; i < sums.size(); ++i) static_cast<bf16*>(bias)[i] = rounded(sums[i]);
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

constexpr std::int64_t kRows = 11, kColumns = 16, kInner = 8;

std::vector<bf16> normal(std::int64_t count) {
  static std::mt19937 generator(5);
  std::normal_distribution<double> draw;
  std::vector<bf16> x(static_cast<std::size_t>(count));
  for (bf16& one : x) one = rounded(draw(generator));
  return x;
}

template <class T> void expect_near(T actual, double expected, const char* what) {
  double seen = 0;
  if constexpr (std::is_same_v<T, bf16>)
    seen = value(actual);
  else
    seen = actual;
  EXPECT_NEAR(seen, expected, 1e-4 + std::abs(expected) * 0x1p-8) << what;
}

class LtProducts : public testing::Test {
protected:
  // Other shapes than any test before: algorithms are kept.
  void SetUp() override {
    static int devices = 0;
    answers = {};
    answers.device = ++devices;
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
      expect_near(gelu_in[place(i, j)], x, "GELU's input");
      expect_near(out[place(i, j)], gelu(x), "GELU");
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
        expect_near(out[place(i, j)], x, "gradient");
      }
      const auto column = static_cast<std::size_t>(j);
      if (form == Form::GeluGradient)
        EXPECT_EQ(bias[column], before[column]);
      else
        expect_near(bias[column], sum, "sum");
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
  answers.found = 1; // which cannot run
  EXPECT_EQ(workspace_bytes(nullptr, {Form::LeftSum, 16, 16, 24}), std::nullopt);
  answers.found = 0;
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

} // namespace
