#include "kernels/delta_rule/delta_rule.h"

#include "kernels/delta_rule/inputs_backward.cuh"

namespace assay::delta_rule {
namespace {

// A column of blocks for each walk.
dim3 grid_of(const RuleInputs& p, int width) {
  const int columns = (p.heads * width + kInputColumns - 1) / kInputColumns;
  return {static_cast<unsigned>(walks_of(p.tokens, p.walk)),
          static_cast<unsigned>(3 * columns + 1)};
}

} // namespace

void launch_inputs(const RuleInputs& p, int width, cudaStream_t stream) {
  const dim3 grid = grid_of(p, width);
  if (width == 32) delta_inputs<32><<<grid, kInputThreads, 0, stream>>>(p);
  if (width == 64) delta_inputs<64><<<grid, kInputThreads, 0, stream>>>(p);
  if (width == 128) delta_inputs<128><<<grid, kInputThreads, 0, stream>>>(p);
}

void launch_inputs_backward(const RuleInputGradients& b, int width, cudaStream_t stream) {
  const dim3 grid = grid_of(b.forward, width);
  if (width == 32) delta_inputs_backward<32><<<grid, kInputThreads, 0, stream>>>(b);
  if (width == 64) delta_inputs_backward<64><<<grid, kInputThreads, 0, stream>>>(b);
  if (width == 128) delta_inputs_backward<128><<<grid, kInputThreads, 0, stream>>>(b);
}

} // namespace assay::delta_rule
