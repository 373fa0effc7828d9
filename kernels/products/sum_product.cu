#include "kernels/products/sum_product.cuh"

namespace assay::sum_product {

namespace {

template <bool kAdd>
void launch_as(const Maps& maps, const Tiles& tiles, int blocks, cudaStream_t stream) {
  cudaFuncSetAttribute(
      sum_product_kernel<kAdd>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  sum_product_kernel<kAdd><<<blocks, 3 * kGroup, kSharedBytes, stream>>>(maps, tiles);
}

} // namespace

void launch_kernel(
    bool add, const Maps& maps, const Tiles& tiles, int blocks, cudaStream_t stream) {
  add ? launch_as<true>(maps, tiles, blocks, stream)
      : launch_as<false>(maps, tiles, blocks, stream);
}

} // namespace assay::sum_product
