#include "kernels/scan/scan.h"

#include "kernels/launch.cuh"
#include "kernels/scan/chain.cuh"
#include "kernels/scan/rwkv6_backward.cuh"
#include "kernels/scan/rwkv6_forward.cuh"
#include "kernels/scan/ssd_backward.cuh"
#include "kernels/scan/ssd_forward.cuh"

namespace assay::scan {
namespace {

// Chains that leave most of the board idle: then chunks side by side, and the chain alone.
bool few_long(const ChunkTable& at) {
  return 4 * at.segments * at.heads <= processors() && at.chunks > 4 * at.segments;
}

ChunkTable each_alone(ChunkTable at) {
  at.first = nullptr, at.slot = nullptr, at.segments = at.chunks;
  return at;
}

template <int kKeys, int kRowsADecay, bool kReverse>
void launch_chain(const Chain& p, cudaStream_t stream) {
  constexpr int kBlocks = kKeys * kWidth / 2 / kChainThreads;
  launch(chain<kKeys, kRowsADecay, kReverse>,
         {p.at.segments * p.at.heads * kBlocks, kChainThreads, 0, stream},
         p);
}

template <bool kReverse> void launch_states(const RwkvState& p, cudaStream_t stream) {
  if (!few_long(p.at))
    return launch(rwkv6_state<kReverse, false>,
                  {p.at.segments * p.at.heads, kRwkvThreads, RwkvStateMemory<false>::bytes, stream},
                  p);
  RwkvState alone = p;
  alone.at = each_alone(p.at);
  launch(rwkv6_state<kReverse, true>,
         {p.at.chunks * p.at.heads, kRwkvThreads, RwkvStateMemory<true>::bytes, stream},
         alone);
  launch_chain<kWidth, 1, kReverse>({p.at, p.states, p.decay, p.begin, p.end}, stream);
}

template <int N, Pass kPass, bool kReverse>
void launch_pass(const SsdScan& p, cudaStream_t stream) {
  launch(ssd_scan<N, kReverse, kPass>,
         {p.at.segments * p.at.heads, kScanThreads, ScanMemory<N, kPass>::bytes, stream},
         p);
}

template <int N, bool kReverse> void launch_scan(const SsdScan& p, cudaStream_t stream) {
  if (!few_long(p.at)) return launch_pass<N, Pass::kWhole, kReverse>(p, stream);
  SsdScan alone = p;
  alone.at = each_alone(p.at);
  launch_pass<N, Pass::kAdded, kReverse>(alone, stream);
  launch_chain<N, N, kReverse>({p.at, p.states, p.decay, p.begin, p.end}, stream);
  launch_pass<N, Pass::kOutput, kReverse>(alone, stream);
}

template <int N> void forward(const Ssd& p, cudaStream_t stream) {
  launch_scan<N, false>(
      {p.at, p.c, p.b, p.x, p.a, p.begin, p.end, p.states, p.decay, p.out, p.groups}, stream);
}

template <int N> void backward(const SsdGradients& back, cudaStream_t stream) {
  const Ssd& p = back.problem;
  launch_scan<N, true>({p.at,
                        p.b,
                        p.c,
                        back.d_out,
                        p.a,
                        back.d_end,
                        back.d_begin,
                        back.d_states,
                        p.decay,
                        back.dx,
                        p.groups},
                       stream);
  launch(ssd_gradients<N>,
         {p.at.chunks * p.groups, kGradientThreads, SsdGradientsMemory<N>::bytes, stream},
         back);
}

} // namespace

void launch_rwkv6(const Rwkv6& p, cudaStream_t stream) {
  launch_states<false>({p.at, p.k, p.v, p.w, p.begin, p.end, p.states, p.decay}, stream);
  launch(rwkv6_output, {p.at.chunks * p.at.heads, kRwkvThreads, kRwkvOutputBytes, stream}, p);
}

void launch_rwkv6_backward(const Rwkv6Gradients& back, cudaStream_t stream) {
  const Rwkv6& p = back.problem;
  launch_states<true>(
      {p.at, p.r, back.d_out, p.w, back.d_end, back.d_begin, back.d_states, p.decay}, stream);
  launch(
      rwkv6_gradients, {p.at.chunks * p.at.heads, kRwkvThreads, kRwkvGradientsBytes, stream}, back);
  launch(rwkv6_du,
         {p.at.heads, kDuThreads, kDuThreads * static_cast<int>(sizeof(float)), stream},
         back);
}

void launch_ssd(const Ssd& problem, int state_dim, cudaStream_t stream) {
  if (state_dim == 64) forward<64>(problem, stream);
  if (state_dim == 128) forward<128>(problem, stream);
}

void launch_ssd_backward(const SsdGradients& gradients, int state_dim, cudaStream_t stream) {
  if (state_dim == 64) backward<64>(gradients, stream);
  if (state_dim == 128) backward<128>(gradients, stream);
}

} // namespace assay::scan
