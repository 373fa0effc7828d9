#include "tests/kernels/fake_cublaslt.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

namespace fake_cublaslt {

using assay::bf16;

Answers answers;

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

std::vector<bf16> normal(std::int64_t count) {
  static std::mt19937 generator(5);
  std::normal_distribution<double> draw;
  std::vector<bf16> x(static_cast<std::size_t>(count));
  for (bf16& one : x) one = rounded(draw(generator));
  return x;
}

void expect_near(double actual, double expected, const char* what) {
  EXPECT_NEAR(actual, expected, 1e-4 + std::abs(expected) * 0x1p-8) << what;
}

int fresh_device() {
  static int devices = 0;
  return ++devices;
}

namespace {

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
} // namespace fake_cublaslt

using namespace fake_cublaslt;
using assay::bf16;

cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  *device = answers.device;
  return cudaSuccess;
}

cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = answers.captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

// An event is a place in answers.ran.
cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new std::size_t);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<std::size_t*>(event);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  *reinterpret_cast<std::size_t*>(event) = answers.ran.size();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t) {
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  *ms = 0;
  for (std::size_t i = *reinterpret_cast<std::size_t*>(begin);
       i < *reinterpret_cast<std::size_t*>(end);
       ++i)
    *ms += answers.ms[answers.ran[i]];
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
  *count = std::min(most, static_cast<int>(answers.proposed.size()));
  for (int i = 0; i < *count; ++i) {
    results[i].state = i == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    results[i].workspaceSize = kWorkspace;
    results[i].algo.data[0] = answers.proposed[static_cast<std::size_t>(i)];
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
  const double kept = *static_cast<const float*>(beta);
  answers.ran.push_back(algorithm->data[0]);
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
      if (epilogue == CUBLASLT_EPILOGUE_BIAS) x += value(static_cast<const bf16*>(bias)[i]);
      if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS) {
        x += value(static_cast<const bf16*>(bias)[i]);
        aux[at_aux] = rounded(x);
        x = gelu(x);
      }
      if (epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
        x *= gelu_slope(value(aux[at_aux]));
      const double before = kept == 0              ? 0
                            : d.type == CUDA_R_32F ? static_cast<const float*>(out)[at]
                                                   : value(static_cast<const bf16*>(out)[at]);
      x += kept * before;
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
