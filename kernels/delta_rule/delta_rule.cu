#include "kernels/delta_rule/delta_rule.h"

#include <algorithm>

#include "kernels/delta_rule/gradients.cuh"
#include "kernels/delta_rule/output.cuh"
#include "kernels/delta_rule/prepare.cuh"
#include "kernels/delta_rule/reverse.cuh"
#include "kernels/delta_rule/starts.cuh"
#include "kernels/delta_rule/state.cuh"
#include "kernels/launch.cuh"

namespace assay::delta_rule {
namespace {

// Each chunk is passed twice, so two pieces gain nothing. A start costs as much as a few chunks.
constexpr int kLeastPieces = 3, kLeastPiece = 16; // chunks

// Chains that can have an SM each must not share one, also where some SMs are free before others.
int chain_bytes(int blocks, int bytes) {
  if (blocks > processors()) return bytes;
  return std::max(bytes, of_device(cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2);
}

template <int D> void launch_starts(const Problem& p, bool backwards, cudaStream_t stream) {
  const int blocks = p.segments * p.heads * (D / kStartRows);
  launch(starts<D>, {blocks, kThreads, starts_bytes<D>(), stream}, p, backwards);
}

template <int D, Chain kChain>
void launch_state(const Problem& p, int blocks, bool before_end, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>, kBytes = StateMemory<D, kPart>::bytes;
  const int bytes = kChain == Chain::Effect ? kBytes : chain_bytes(blocks, kBytes);
  launch(state<D, kPart, kChain>, {blocks, kChainThreads<kPart>, bytes, stream, before_end}, p);
}

template <int D> void forward(const Problem& p, cudaStream_t stream) {
  const int squares = p.chunks * p.heads, chains = p.segments * p.heads * (D / kValuePart<D>);
  launch(prepare<D>, {squares, kThreads, prepare_bytes(), stream}, p);
  if (p.pieces > 1) {
    launch_state<D, Chain::Effect>(p, 2 * chains * (p.pieces - 1), true, stream);
    launch_starts<D>(p, false, stream);
    launch_state<D, Chain::Piece>(p, chains * p.pieces, false, stream);
  } else {
    launch_state<D, Chain::Whole>(p, chains, true, stream);
  }
  // Two blocks fit beside a chain.
  launch(output<D>, {squares, kThreads, output_bytes<D>(), stream, true}, p, 2 * processors());
}

template <int D, bool kAlone, Chain kChain>
void launch_reverse(const Gradients& b, int blocks, cudaStream_t stream) {
  constexpr int kPart = kValuePart<D>;
  launch(reverse<D, kPart, kAlone, kChain>,
         {blocks, kChainThreads<kPart>, ReverseMemory<D, kPart, kAlone>::bytes, stream},
         b);
}

template <int D, Chain kChain>
void launch_reverse(const Gradients& b, int blocks, cudaStream_t stream) {
  if constexpr (D == 64 && kChain != Chain::Effect)
    if (blocks <= processors()) return launch_reverse<D, true, kChain>(b, blocks, stream);
  launch_reverse<D, false, kChain>(b, blocks, stream);
}

template <int D> void backward(const Gradients& b, cudaStream_t stream) {
  const Problem& p = b.problem;
  const int chains = p.segments * p.heads * (D / kValuePart<D>);
  if (p.pieces > 1) {
    launch_reverse<D, Chain::Effect>(b, 2 * chains * (p.pieces - 1), stream);
    launch_starts<D>(p, true, stream);
    launch_reverse<D, Chain::Piece>(b, chains * p.pieces, stream);
  } else {
    launch_reverse<D, Chain::Whole>(b, chains, stream);
  }
  launch(gradients<D>, {p.chunks * p.heads_k, kThreads, gradients_bytes<D>(), stream, true}, b);
}

} // namespace

int best_pieces(const Problem& p, int width) {
  const int chains = p.segments * p.heads * (width == 64 ? 1 : width / 32);
  if (chains == 0) return 1;
  const int pieces = std::min(processors() / chains, p.chunks / p.segments / kLeastPiece);
  return pieces < kLeastPieces ? 1 : pieces;
}

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
