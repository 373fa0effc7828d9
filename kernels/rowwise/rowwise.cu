#include "kernels/rowwise/rowwise.h"

#include "kernels/rowwise/add_norm.cuh"
#include "kernels/rowwise/columns.cuh"
#include "kernels/rowwise/gated_norm.cuh"
#include "kernels/rowwise/gelu.cuh"
#include "kernels/rowwise/swiglu.cuh"

#include <type_traits>

namespace assay::rowwise {
namespace {

unsigned blocks_of(std::int64_t items, std::int64_t per_block) {
  return static_cast<unsigned>((items + per_block - 1) / per_block);
}

template <class Body> void with_head(int head, Body body) {
  if (head == 32) body(std::integral_constant<int, 32>());
  if (head == 64) body(std::integral_constant<int, 64>());
  if (head == 128) body(std::integral_constant<int, 128>());
}

} // namespace

template <class Stream> void launch_add_norm(const AddNorm<Stream>& p, cudaStream_t stream) {
  with_words(p.width, [&](auto words, auto whole) {
    constexpr int kWords = decltype(words)::value;
    constexpr bool kWhole = decltype(whole)::value;
    const unsigned blocks = blocks_of(p.rows, kNormWarps);
    if (p.bias != nullptr)
      add_norm<Stream, true, kWords, kWhole><<<blocks, kNormThreads, 0, stream>>>(p);
    else
      add_norm<Stream, false, kWords, kWhole><<<blocks, kNormThreads, 0, stream>>>(p);
  });
}

template <class Stream>
void launch_add_norm_backward(const AddNormBackward<Stream>& p, cudaStream_t stream) {
  with_words(p.width, [&](auto words, auto whole) {
    constexpr int kWords = decltype(words)::value;
    constexpr bool kWhole = decltype(whole)::value;
    if (p.mean != nullptr)
      add_norm_backward<Stream, true, kWords, kWhole><<<kPartialRows, kNormThreads, 0, stream>>>(p);
    else
      add_norm_backward<Stream, false, kWords, kWhole>
          <<<kPartialRows, kNormThreads, 0, stream>>>(p);
  });
}

template void launch_add_norm(const AddNorm<float>&, cudaStream_t);
template void launch_add_norm(const AddNorm<bf16>&, cudaStream_t);
template void launch_add_norm_backward(const AddNormBackward<float>&, cudaStream_t);
template void launch_add_norm_backward(const AddNormBackward<bf16>&, cudaStream_t);

void launch_gated_norm(const GatedNorm& p, cudaStream_t stream) {
  const std::int64_t words = static_cast<std::int64_t>(p.tokens) * p.heads * p.head / 8;
  with_head(p.head, [&](auto head) {
    gated_norm<decltype(head)::value>
        <<<blocks_of(words, kGateThreads), kGateThreads, 0, stream>>>(p);
  });
}

void launch_gated_norm_backward(const GatedNormBackward& p, cudaStream_t stream) {
  with_head(p.forward.head, [&](auto head) {
    gated_norm_backward<decltype(head)::value><<<kPartialRows, kGateThreads, 0, stream>>>(p);
  });
}

void launch_swiglu(const SwiGlu& p, cudaStream_t stream) {
  swiglu<<<blocks_of(p.tokens * p.hidden / 8, kGateThreads), kGateThreads, 0, stream>>>(p);
}

void launch_swiglu_backward(const SwiGluBackward& p, cudaStream_t stream) {
  swiglu_backward<<<blocks_of(p.tokens * p.hidden / 8, kGateThreads), kGateThreads, 0, stream>>>(p);
}

void launch_bias_gelu(const BiasGelu& p, cudaStream_t stream) {
  bias_gelu<<<blocks_of(p.tokens * p.hidden / 8, kGeluThreads), kGeluThreads, 0, stream>>>(p);
}

void launch_bias_gelu_backward(const BiasGeluBackward& p, cudaStream_t stream) {
  const dim3 grid(kGeluPartialRows, blocks_of(p.hidden, kGeluColumns));
  bias_gelu_backward<<<grid, kGeluThreads, 0, stream>>>(p);
}

void launch_column_sum(const ColumnSum& p, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(p.parts), blocks_of(p.width, kColumns));
  column_sum<<<grid, kColumnThreads, 0, stream>>>(p);
  column_sum_of_parts<<<blocks_of(p.width, 32), kPartThreads, 0, stream>>>(p);
}

} // namespace assay::rowwise
