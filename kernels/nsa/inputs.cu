#include "kernels/nsa/inputs.h"

#include "kernels/nsa/inputs.cuh"
#include "kernels/nsa/mix.cuh"

namespace assay::nsa {

namespace {

unsigned token_blocks(int tokens) {
  return static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
}

} // namespace

void launch_inputs(const Inputs& p, cudaStream_t stream) {
  if (p.tokens == 0) return;
  inputs_kernel<<<token_blocks(p.tokens), kThreads, 0, stream>>>(p);
  if (p.blocks > 0) blocks_kernel<<<static_cast<unsigned>(p.blocks), kThreads, 0, stream>>>(p);
}

void launch_inputs_backward(const InputsBackward& p, cudaStream_t stream) {
  if (p.tokens > 0) inputs_backward_kernel<<<token_blocks(p.tokens), kThreads, 0, stream>>>(p);
}

void launch_mix(const Mix& p, cudaStream_t stream) {
  mix_kernel<<<kMixBlocks, kThreads, 0, stream>>>(p);
}

void launch_mix_backward(const MixBackward& p, cudaStream_t stream) {
  mix_backward_kernel<<<kMixBlocks, kThreads, 0, stream>>>(p);
}

} // namespace assay::nsa
