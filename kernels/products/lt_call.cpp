#include "kernels/products/lt_call.h"

#include <utility>

#include "core/result.h"

namespace assay {

LtCall::LtCall(std::function<std::string()> what, Matrix a, Matrix b, Matrix out)
    : what_(std::move(what)) {
  check(cublasLtMatmulDescInit(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescInit");
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& to, const Matrix& m) {
    check(cublasLtMatrixLayoutInit(&to,
                                   m.type,
                                   static_cast<std::uint64_t>(m.rows),
                                   static_cast<std::uint64_t>(m.columns),
                                   m.ld),
          "cublasLtMatrixLayoutInit");
  };
  layout(a_, a), layout(b_, b), layout(out_, out);
}

void LtCall::transpose(bool a, bool b) {
  set(CUBLASLT_MATMUL_DESC_TRANSA, a ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, b ? CUBLAS_OP_T : CUBLAS_OP_N);
}

std::vector<LtAlgorithm> LtCall::algorithms(cublasLtHandle_t handle, const Wish& wish, int most) {
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, wish.most_workspace);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, wish.reductions);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, wish.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, wish.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, wish.alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, wish.alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &product_, &a_, &b_, &out_, &out_, &preference, most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<LtAlgorithm> result;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& one = found[static_cast<std::size_t>(i)];
    if (one.state == CUBLAS_STATUS_SUCCESS && one.workspaceSize <= wish.most_workspace)
      result.push_back({one.algo, one.workspaceSize});
  }
  return result;
}

void LtCall::run(cublasLtHandle_t handle,
                 const Pointers& p,
                 float beta,
                 const LtAlgorithm& chosen,
                 cudaStream_t stream) {
  const float one = 1;
  check(cublasLtMatmul(handle,
                       &product_,
                       &one,
                       p.a,
                       &a_,
                       p.b,
                       &b_,
                       &beta,
                       p.out,
                       &out_,
                       p.out,
                       &out_,
                       &chosen.algorithm,
                       p.workspace,
                       chosen.workspace,
                       stream),
        "cublasLtMatmul");
}

void LtCall::set_bytes(cublasLtMatmulDescAttributes_t attribute,
                       const void* value,
                       std::size_t bytes) {
  check(cublasLtMatmulDescSetAttribute(&product_, attribute, value, bytes),
        "cublasLtMatmulDescSetAttribute");
}

void LtCall::check(cublasStatus_t status, const char* call) const {
  if (status != CUBLAS_STATUS_SUCCESS)
    internal_error("{} failed for {}: {}", call, what_(), cublasLtGetStatusString(status));
}

} // namespace assay
