#include "kernels/products/sum_product.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/products/sum_product_problem.h"

namespace assay::sum_product {

namespace {

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

// By name: nothing here links the driver.
EncodeTiled encode_tiled() {
  static const EncodeTiled found = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    ASSAY_CUDA(cudaGetDriverEntryPointByVersion(
        "cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result));
    if (result != cudaDriverEntryPointSuccess)
      internal_error("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<EncodeTiled>(function);
  }();
  return found;
}

struct Matrix {
  const void* data;
  std::int64_t rows, columns, stride; // elements
};

// Boxes beyond the matrix are zeros.
CUtensorMap
map_of(const Matrix& matrix, CUtensorMapDataType type, int bytes, int box_rows, int box_columns) {
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns),
                              static_cast<cuuint64_t>(matrix.rows)},
                   strides[] = {static_cast<cuuint64_t>(matrix.stride * bytes)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(box_columns),
                            static_cast<cuuint32_t>(box_rows)},
                   steps[] = {1, 1};
  const bool swizzled = box_columns * bytes == 128;
  const CUresult status = encode_tiled()(
      &map,
      type,
      2,
      const_cast<void*>(matrix.data), // NOLINT(cppcoreguidelines-pro-type-const-cast)
      sizes,
      strides,
      box,
      steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE,
      swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS)
    internal_error("cuTensorMapEncodeTiled failed for {} x {}, stride {}: {}",
                   matrix.rows,
                   matrix.columns,
                   matrix.stride,
                   static_cast<int>(status));
  return map;
}

bool is_aligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
}

} // namespace

bool takes(const Problem& p, int capability) {
  return capability == 90 && p.columns % 8 == 0 && p.left_stride % 8 == 0 && is_aligned(p.left) &&
         is_aligned(p.right) && is_aligned(p.out) && p.rows > 0 && p.columns > 0 && p.inner > 0;
}

void launch(const Problem& p, int multiprocessors, cudaStream_t stream) {
  const auto half = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const Maps maps{map_of({p.left, p.inner, p.rows, p.left_stride}, half, 2, kInner, kBox),
                  map_of({p.right, p.inner, p.columns, p.columns}, half, 2, kInner, kBox),
                  map_of({p.out, p.rows, p.columns, p.columns},
                         CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                         4,
                         kOutRows,
                         kOutBox)};
  const auto parts = [](std::int64_t whole, int part) {
    return static_cast<int>((whole + part - 1) / part);
  };
  Tiles tiles{};
  tiles.columns = parts(p.columns, kColumns);
  tiles.count = tiles.columns * parts(p.rows, kRows);
  tiles.steps = parts(p.inner, kInner);
  launch_kernel(p.add, maps, tiles, std::min(tiles.count, multiprocessors), stream);
  ASSAY_CUDA(cudaGetLastError());
}

} // namespace assay::sum_product
