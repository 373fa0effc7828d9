#include "kernels/delta_rule/delta_rule.h"

#include "kernels/delta_rule/gradients.cuh"
#include "kernels/delta_rule/output.cuh"
#include "kernels/delta_rule/prepare.cuh"
#include "kernels/delta_rule/reverse.cuh"
#include "kernels/delta_rule/state.cuh"

namespace assay::delta_rule {
namespace {

template <class Kernel, class Argument>
void launch(Kernel kernel,
            int blocks,
            int threads,
            int shared_bytes,
            const Argument& argument,
            cudaStream_t stream) {
  // Per device and kernel; a call costs less than a microsecond.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  kernel<<<static_cast<unsigned>(blocks),
           static_cast<unsigned>(threads),
           static_cast<std::size_t>(shared_bytes),
           stream>>>(argument);
}

template <int D> void forward(const Problem& p, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>;
  launch(prepare<D>, p.chunks * p.heads, kThreads, prepare_bytes(), p, stream);
  launch(state<D, kPart>,
         p.segments * p.heads * (D / kPart),
         kChainThreads<kPart>,
         StateMemory<D, kPart>::bytes,
         p,
         stream);
  launch(output<D>, p.chunks * p.heads, kThreads, output_bytes<D>(), p, stream);
}

template <int D, bool kAlone>
void launch_reverse(const Gradients& b, int blocks, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>;
  launch(reverse<D, kPart, kAlone>,
         blocks,
         kChainThreads<kPart>,
         ReverseMemory<D, kPart, kAlone>::bytes,
         b,
         stream);
}

bool is_alone(int blocks) { // whether every block can have an SM
  int device = 0, processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  return blocks <= processors;
}

template <int D> void backward(const Gradients& b, cudaStream_t stream) {
  const Problem& p = b.problem;
  const int blocks = p.segments * p.heads * (D / kValuePart<D>);
  if (D == 64 && is_alone(blocks))
    launch_reverse<64, true>(b, blocks, stream);
  else
    launch_reverse<D, false>(b, blocks, stream);
  launch(gradients<D>, p.chunks * p.heads_k, kThreads, gradients_bytes<D>(), b, stream);
}

} // namespace

void launch_forward(const Problem& problem, int width, cudaStream_t stream) {
  if (width == 32) forward<32>(problem, stream);
  if (width == 64) forward<64>(problem, stream);
  if (width == 128) forward<128>(problem, stream);
}

void launch_backward(const Gradients& gradients, int width, cudaStream_t stream) {
  if (width == 32) backward<32>(gradients, stream);
  if (width == 64) backward<64>(gradients, stream);
  if (width == 128) backward<128>(gradients, stream);
}

} // namespace assay::delta_rule
