#include "kernels/products/lt_products.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "kernels/cuda_check.h"
#include "kernels/products/lt_call.h"

namespace assay::lt_products {

namespace {

constexpr std::uint64_t kMostWorkspace = std::uint64_t{32} << 20;
constexpr int kAsked = 8; // algorithms, best first

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

std::string text_of(const Shape& s) {
  return fmt::format("{}, {} x {} over {}", formula(s.form), s.rows, s.columns, s.inner);
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

// cuBLASLt is told the transpose: out^T = right^T left^T, with `right` as its A and `left` as its
// B.
LtCall call_of(const Shape& s, const Pointers& p) {
  const bool sum = s.form == Form::LeftSum, gelu = s.form == Form::BiasGelu;
  const auto packed = [](cudaDataType_t type, std::int64_t rows, std::int64_t columns) {
    return LtCall::Matrix{type, rows, columns, rows};
  };
  LtCall call([&s] { return text_of(s); },
              gelu ? packed(CUDA_R_16BF, s.inner, s.columns)
                   : packed(CUDA_R_16BF, s.columns, s.inner),
              sum ? packed(CUDA_R_16BF, s.rows, s.inner) : packed(CUDA_R_16BF, s.inner, s.rows),
              packed(sum ? CUDA_R_32F : CUDA_R_16BF, s.columns, s.rows));
  call.transpose(gelu, sum);
  call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s.form));
  // Bias, sum and GELU's input have the type of the result.
  if (s.form != Form::GeluGradient) call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  if (!sum) {
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.gelu_in);
    call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, s.columns);
  }
  return call;
}

std::optional<LtAlgorithm> choose(cublasLtHandle_t handle, const Shape& shape) {
  // The heuristics read no memory, only how pointers are aligned.
  alignas(kAlignment) static std::byte any[kAlignment];
  Pointers aligned;
  aligned.gelu_in = aligned.bias = any;
  // Parts of a sum are added up in fp32, also where the result is bf16.
  const std::uint32_t in_place = shape.form == Form::LeftSum ? CUBLASLT_REDUCTION_SCHEME_INPLACE
                                                             : CUBLASLT_REDUCTION_SCHEME_NONE;
  const std::vector<LtAlgorithm> found =
      call_of(shape, aligned)
          .algorithms(
              handle,
              {kMostWorkspace, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | in_place, kAlignment},
              kAsked);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

struct Chosen {
  std::mutex mutex;
  std::map<std::pair<int, Shape>, std::optional<LtAlgorithm>> of; // by device; nodes stay in place
};

const std::optional<LtAlgorithm>& algorithm_of(cublasLtHandle_t handle, const Shape& shape) {
  static Chosen& chosen = *new Chosen; // never destroyed: backward threads may outlive main()
  int device = 0;
  ASSAY_CUDA(cudaGetDevice(&device));
  const std::lock_guard lock(chosen.mutex);
  const auto found = chosen.of.find({device, shape});
  if (found != chosen.of.end()) return found->second;
  return chosen.of.emplace(std::pair(device, shape), choose(handle, shape)).first->second;
}

} // namespace

std::optional<std::int64_t> workspace_bytes(cublasLtHandle_t handle, const Shape& shape) {
  const std::optional<LtAlgorithm>& chosen = algorithm_of(handle, shape);
  return chosen ? std::optional(static_cast<std::int64_t>(chosen->workspace)) : std::nullopt;
}

void run(cublasLtHandle_t handle,
         const Shape& shape,
         const Pointers& pointers,
         cudaStream_t stream) {
  const std::optional<LtAlgorithm>& chosen = algorithm_of(handle, shape);
  if (!chosen) internal_error("cuBLASLt has no algorithm for {}", text_of(shape));
  call_of(shape, pointers)
      .run(handle,
           {pointers.right, pointers.left, pointers.out, pointers.workspace},
           0,
           *chosen,
           stream);
}

} // namespace assay::lt_products
