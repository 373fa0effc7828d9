#include "kernels/products/lt_products.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>

#include "core/result.h"
#include "kernels/cuda_check.h"

namespace assay::lt_products {

namespace {

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;
constexpr int kAsked = 8; // algorithms, best first

struct Algorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

const char* formula(Form form) {
  switch (form) {
  case Form::BiasGelu:
    return "gelu(A B^T + bias)";
  case Form::GeluGradient:
    return "A B and GELU's gradient";
  case Form::GeluGradientSum:
    return "A B, GELU's gradient and its sum";
  case Form::LeftSum:
    return "A^T B and the sum of A";
  }
  internal_error("unknown form of a product");
}

void check(cublasStatus_t status, const char* call, const Shape& s) {
  if (status != CUBLAS_STATUS_SUCCESS)
    internal_error("{} failed for {}, {} x {} over {}: {}",
                   call,
                   formula(s.form),
                   s.rows,
                   s.columns,
                   s.inner,
                   cublasLtGetStatusString(status));
}

cublasLtEpilogue_t epilogue_of(Form form) {
  switch (form) {
  case Form::BiasGelu:
    return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  case Form::GeluGradient:
    return CUBLASLT_EPILOGUE_DGELU;
  case Form::GeluGradientSum:
    return CUBLASLT_EPILOGUE_DGELU_BGRAD;
  case Form::LeftSum:
    return CUBLASLT_EPILOGUE_BGRADB;
  }
  internal_error("unknown form of a product");
}

// cuBLASLt's matrices are column-major, so it is told the transpose: out^T = right^T left^T, with
// `right` as its A and `left` as its B.
class Call {
public:
  Call(const Shape& shape, const Pointers& p) : s_(shape) {
    const bool sum = s_.form == Form::LeftSum;
    check(cublasLtMatmulDescInit(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
          "cublasLtMatmulDescInit",
          s_);
    set(CUBLASLT_MATMUL_DESC_TRANSA, s_.form == Form::BiasGelu ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, sum ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s_.form));
    // Bias, sum and GELU's input have the type of the result.
    if (s_.form != Form::GeluGradient) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
    if (!sum) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_in);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s_.columns);
    }
    s_.form == Form::BiasGelu ? layout(right_, CUDA_R_16BF, s_.inner, s_.columns)
                              : layout(right_, CUDA_R_16BF, s_.columns, s_.inner);
    sum ? layout(left_, CUDA_R_16BF, s_.rows, s_.inner)
        : layout(left_, CUDA_R_16BF, s_.inner, s_.rows);
    layout(out_, sum ? CUDA_R_32F : CUDA_R_16BF, s_.columns, s_.rows);
  }

  std::optional<Algorithm> choose(cublasLtHandle_t handle) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit", s_);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, what, &value, sizeof(value)),
            "cublasLtMatmulPreferenceSetAttribute",
            s_);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    // Parts of a sum are added up in fp32, also where the result is bf16.
    const std::uint32_t in_place = s_.form == Form::LeftSum ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                                                            : CUBLASLT_REDUCTION_SCHEME_NONE;
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | in_place);
    std::array<cublasLtMatmulHeuristicResult_t, kAsked> found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle,
                                                                 &product_,
                                                                 &right_,
                                                                 &left_,
                                                                 &out_,
                                                                 &out_,
                                                                 &preference,
                                                                 kAsked,
                                                                 found.data(),
                                                                 &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return std::nullopt;
    check(status, "cublasLtMatmulAlgoGetHeuristic", s_);
    const auto end = found.begin() + count;
    const auto first = std::find_if(found.begin(), end, [](const auto& one) {
      return one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= kMostWorkspace;
    });
    if (first == end) return std::nullopt;
    return Algorithm{first->algo, first->workspaceSize};
  }

  void
  run(cublasLtHandle_t handle, const Pointers& p, const Algorithm& chosen, cudaStream_t stream) {
    const float one = 1, zero = 0;
    check(cublasLtMatmul(handle,
                         &product_,
                         &one,
                         p.right,
                         &right_,
                         p.left,
                         &left_,
                         &zero,
                         p.out,
                         &out_,
                         p.out,
                         &out_,
                         &chosen.algorithm,
                         p.workspace,
                         chosen.workspace,
                         stream),
          "cublasLtMatmul",
          s_);
  }

private:
  template <class T> void set(cublasLtMatmulDescAttributes_t what, const T& value) {
    const auto* const place = static_cast<const void*>(&value);
    check(cublasLtMatmulDescSetAttribute(&product_, what, place, sizeof(value)),
          "cublasLtMatmulDescSetAttribute",
          s_);
  }
  // Column-major and without gaps.
  void layout(cublasLtMatrixLayoutOpaque_t& to,
              cudaDataType_t type,
              std::int64_t rows,
              std::int64_t columns) const {
    check(
        cublasLtMatrixLayoutInit(
            &to, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), rows),
        "cublasLtMatrixLayoutInit",
        s_);
  }

  const Shape& s_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t right_{}, left_{}, out_{};
};

struct Chosen {
  std::mutex mutex;
  std::map<std::pair<int, Shape>, std::optional<Algorithm>> of; // by device; nodes stay in place
};

const std::optional<Algorithm>& algorithm_of(cublasLtHandle_t handle, const Shape& shape) {
  static Chosen& chosen = *new Chosen; // never destroyed: backward threads may outlive main()
  int device = 0;
  ASSAY_CUDA(cudaGetDevice(&device));
  const std::lock_guard lock(chosen.mutex);
  const auto found = chosen.of.find({device, shape});
  if (found != chosen.of.end()) return found->second;
  // The heuristics read no memory, only how pointers are aligned.
  alignas(kAlignment) static std::byte any[kAlignment];
  Pointers aligned;
  aligned.gelu_in = aligned.bias = any;
  return chosen.of.emplace(std::pair(device, shape), Call(shape, aligned).choose(handle))
      .first->second;
}

} // namespace

std::optional<std::int64_t> workspace_bytes(cublasLtHandle_t handle, const Shape& shape) {
  const std::optional<Algorithm>& chosen = algorithm_of(handle, shape);
  return chosen ? std::optional(static_cast<std::int64_t>(chosen->workspace)) : std::nullopt;
}

void run(cublasLtHandle_t handle,
         const Shape& shape,
         const Pointers& pointers,
         cudaStream_t stream) {
  const std::optional<Algorithm>& chosen = algorithm_of(handle, shape);
  if (!chosen) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", shape);
  Call(shape, pointers).run(handle, pointers, *chosen, stream);
}

} // namespace assay::lt_products
