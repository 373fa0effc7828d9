#include "kernels/attention/attention.h"
#include "kernels/attention/heads.cuh"
#include "kernels/attention/norm.cuh"

namespace assay::latent {
namespace {

// A warp for each token.
unsigned blocks_of(int tokens, int warps) {
  return static_cast<unsigned>((tokens + warps - 1) / warps);
}

} // namespace

void launch_norm(const Norm& p, cudaStream_t stream) {
  with_words(p.rank, [&](auto words, auto whole) {
    norm_latent<decltype(words)::value, decltype(whole)::value>
        <<<blocks_of(p.tokens, kWarps), kThreads, 0, stream>>>(p);
  });
}

void launch_norm_backward(const NormBackward& b, cudaStream_t stream) {
  with_words(b.forward.rank, [&](auto words, auto whole) {
    norm_latent_backward<decltype(words)::value, decltype(whole)::value>
        <<<kPartialRows, kThreads, 0, stream>>>(b);
  });
}

void launch_heads(const Heads& p, cudaStream_t stream) {
  latent_heads<<<blocks_of(p.tokens, kHeadWarps), kHeadThreads, 0, stream>>>(p);
}

void launch_heads_backward(const HeadsBackward& b, cudaStream_t stream) {
  latent_heads_backward<<<blocks_of(b.tokens, kHeadWarps), kHeadThreads, 0, stream>>>(b);
}

} // namespace assay::latent
