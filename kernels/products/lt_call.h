// One call of cuBLASLt, whose matrices are column-major: out = op(A) op(B) + beta out, sums in
// fp32. Allocates nothing and waits for nothing, so that a CUDA graph can capture it.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace assay {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0; // bytes
};

class LtCall {
public:
  // Column-major; `ld`: elements from one column to the next.
  struct Matrix {
    cudaDataType_t type;
    std::int64_t rows, columns, ld;
  };
  struct Pointers {
    const void* a = nullptr;
    const void* b = nullptr;
    void* out = nullptr;
    void* workspace = nullptr;
  };
  // What an algorithm may do.
  struct Wish {
    std::uint64_t most_workspace = 0; // bytes
    std::uint32_t reductions = 0;     // cublasLtReductionScheme_t of split sums
    std::uint32_t alignment = 256;    // bytes, of A, B and out
  };

  // `what`: names the product where a call fails.
  LtCall(std::function<std::string()> what, Matrix a, Matrix b, Matrix out);
  void transpose(bool a, bool b);
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    set_bytes(attribute, static_cast<const void*>(&value), sizeof(value));
  }

  // At most `most`, those that the heuristics take for the fastest first. None: cuBLASLt has none.
  std::vector<LtAlgorithm> algorithms(cublasLtHandle_t handle, const Wish& wish, int most);
  void run(cublasLtHandle_t handle,
           const Pointers& p,
           float beta,
           const LtAlgorithm& chosen,
           cudaStream_t stream);

private:
  void set_bytes(cublasLtMatmulDescAttributes_t attribute, const void* value, std::size_t bytes);
  void check(cublasStatus_t status, const char* call) const;

  std::function<std::string()> what_;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t a_{}, b_{}, out_{};
};

} // namespace assay
