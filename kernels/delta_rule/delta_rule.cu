#include "kernels/delta_rule/delta_rule.h"

#include <algorithm>

#include "kernels/delta_rule/gradients.cuh"
#include "kernels/delta_rule/output.cuh"
#include "kernels/delta_rule/prepare.cuh"
#include "kernels/delta_rule/reverse.cuh"
#include "kernels/delta_rule/state.cuh"

namespace assay::delta_rule {
namespace {

int of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&value, attribute, device);
  return value;
}

int processors() {
  return of_device(cudaDevAttrMultiProcessorCount);
}

struct Launch {
  int blocks, threads, shared_bytes;
  cudaStream_t stream;
  bool before_end = false; // as soon as the kernel before lets it (simt.cuh), on Hopper and later
};

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& of, const Arguments&... arguments) {
  // Per device and kernel; a call costs less than a microsecond.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, of.shared_bytes);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(of.blocks);
  config.blockDim = static_cast<unsigned>(of.threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(of.shared_bytes);
  config.stream = of.stream;
  config.attrs = &early;
  config.numAttrs = of.before_end && of_device(cudaDevAttrComputeCapabilityMajor) >= 9 ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

// Chains that can have an SM each must not share one, also where some SMs are free before others.
int chain_bytes(int blocks, int bytes) {
  if (blocks > processors()) return bytes;
  return std::max(bytes, of_device(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2);
}

template <int D> void forward(const Problem& p, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>;
  const int squares = p.chunks * p.heads, chains = p.segments * p.heads * (D / kPart);
  const int state_bytes = chain_bytes(chains, StateMemory<D, kPart>::bytes);
  launch(prepare<D>, {squares, kThreads, prepare_bytes(), stream}, p);
  launch(state<D, kPart>, {chains, kChainThreads<kPart>, state_bytes, stream, true}, p);
  // Two blocks fit beside a chain.
  launch(output<D>, {squares, kThreads, output_bytes<D>(), stream, true}, p, 2 * processors());
}

template <int D, bool kAlone>
void launch_reverse(const Gradients& b, int chains, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>;
  launch(reverse<D, kPart, kAlone>,
         {chains, kChainThreads<kPart>, ReverseMemory<D, kPart, kAlone>::bytes, stream},
         b);
}

template <int D> void backward(const Gradients& b, cudaStream_t stream) {
  const Problem& p = b.problem;
  const int chains = p.segments * p.heads * (D / kValuePart<D>);
  if (D == 64 && chains <= processors())
    launch_reverse<64, true>(b, chains, stream);
  else
    launch_reverse<D, false>(b, chains, stream);
  launch(gradients<D>, {p.chunks * p.heads_k, kThreads, gradients_bytes<D>(), stream, true}, b);
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
