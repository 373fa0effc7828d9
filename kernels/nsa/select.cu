#include "kernels/nsa/select.h"

#include <algorithm>

#include "kernels/nsa/select.cuh"

namespace assay {

namespace {

constexpr std::int64_t kMostShared = 96 << 10;

std::int64_t warp_bytes(const SelectProblem& p) {
  return (std::int64_t{p.most_keys} + p.most_blocks) * static_cast<std::int64_t>(sizeof(float));
}

template <class T, int kWidth>
cudaError_t start(const SelectProblem& p, int warps, std::int64_t bytes, cudaStream_t stream) {
  const auto kernel = nsa_select::select_kernel<T, kWidth>;
  if (const cudaError_t error = cudaFuncSetAttribute(
          kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMostShared));
      error != cudaSuccess)
    return error;
  const std::int64_t units = std::int64_t{p.tokens} * p.groups;
  const auto grid = static_cast<unsigned>((units + warps - 1) / warps);
  const auto threads = static_cast<unsigned>(warps * nsa_select::kLanes);
  kernel<<<grid, threads, static_cast<std::size_t>(warps * bytes), stream>>>(
      p, static_cast<int>(bytes / static_cast<std::int64_t>(sizeof(float))), warps);
  return cudaGetLastError();
}

} // namespace

bool select_fits(const SelectProblem& p) {
  return p.most_blocks <= kMaxSelectionBlocks && warp_bytes(p) <= kMostShared &&
         p.heads / p.groups <= kMaxGroupHeads && (p.width == 64 || p.width == 128) &&
         p.type != ElementType::Fp32;
}

cudaError_t launch_nsa_select(const SelectProblem& p, cudaStream_t stream) {
  if (p.tokens == 0 || p.count == 0) return cudaSuccess;
  if (!select_fits(p)) return cudaErrorInvalidValue;
  const std::int64_t bytes = warp_bytes(p);
  const auto warps =
      static_cast<int>(std::clamp<std::int64_t>(kMostShared / bytes, 1, nsa_select::kMostWarps));
  const bool bf16 = p.type == ElementType::Bf16, wide = p.width == 128;
  const auto run = bf16 ? (wide ? start<Bf16, 128> : start<Bf16, 64>)
                        : (wide ? start<Fp16, 128> : start<Fp16, 64>);
  return run(p, warps, bytes, stream);
}

} // namespace assay
