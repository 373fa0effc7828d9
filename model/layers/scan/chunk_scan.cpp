#include "model/layers/scan/chunk_scan.h"

namespace assay {

at::Tensor
entering_states(const ChunkLayout& layout, const at::Tensor& decay, const at::Tensor& update) {
  at::Tensor states = at::empty_like(update);
  std::int64_t begin = 0;
  for (std::size_t s = 0; s < layout.step_chunks.size(); ++s) {
    const std::int64_t size = layout.step_chunks[s] * layout.heads;
    if (s == 0) states.narrow(0, 0, size).zero_();
    if (s + 1 == layout.step_chunks.size()) break;
    const std::int64_t next = layout.step_chunks[s + 1] * layout.heads;
    at::Tensor after = states.narrow(0, begin + size, next);
    at::mul_out(after, states.narrow(0, begin, next), decay.narrow(0, begin, next));
    after.add_(update.narrow(0, begin, next));
    begin += size;
  }
  return states;
}

at::Tensor
leaving_gradients(const ChunkLayout& layout, const at::Tensor& decay, const at::Tensor& read) {
  at::Tensor gradients = at::zeros_like(read);
  std::int64_t end = read.size(0);
  std::int64_t next = 0; // rows of the following step
  for (std::size_t s = layout.step_chunks.size(); s-- > 1;) {
    const std::int64_t size = layout.step_chunks[s] * layout.heads, begin = end - size;
    const std::int64_t before = begin - layout.step_chunks[s - 1] * layout.heads;
    at::Tensor entering = gradients.narrow(0, before, size);
    entering.copy_(read.narrow(0, begin, size));
    if (next > 0)
      entering.narrow(0, 0, next)
          .addcmul_(gradients.narrow(0, begin, next), decay.narrow(0, begin, next));
    end = begin;
    next = size;
  }
  return gradients;
}

} // namespace assay
