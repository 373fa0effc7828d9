#include "model/layout/static_batch.h"

#include <memory>

#include "core/result.h"
#include "model/layout/chunk_layout.h"
#include "model/layout/positions.h"
#include "model/layout/static_nsa_layout.h"

namespace assay {

namespace {

at::Tensor buffer(const at::Tensor& like, std::int64_t size) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = size;
  return at::zeros(sizes, like.options());
}

// Without what only operator forms read.
std::shared_ptr<ChunkLayout> slim(const ChunkLayout& layout) {
  auto result = std::make_shared<ChunkLayout>();
  result->tokens = layout.tokens, result->heads = layout.heads, result->chunk = layout.chunk;
  result->chunks = layout.chunks;
  result->spans = layout.spans, result->segment_chunks = layout.segment_chunks;
  result->position = layout.position;
  result->always_taps = layout.always_taps;
  if (layout.always_taps) result->taps = layout.taps;
  return result;
}

} // namespace

void fill_buffer(const at::Tensor& to, const at::Tensor& from, std::int64_t rest) {
  const std::int64_t given = from.size(0), left = to.size(0) - given;
  if (given > 0) to.narrow(0, 0, given).copy_(from);
  if (left > 0) to.narrow(0, given, left).fill_(rest);
}

StaticBatch::StaticBatch(const Batch& like, Attention path, std::int64_t documents)
    : varlen_(path == Attention::Varlen), documents_(documents) {
  if (path == Attention::MaskDense)
    internal_error("a dense mask is made of each batch: it has no fixed buffers");
  batch_.tokens = at::zeros_like(like.tokens), batch_.targets = at::zeros_like(like.targets);
  batch_.bytes = like.bytes;
  if (!varlen_) {
    batch_.rows = like.rows;
    batch_.rows.causal_mask.reset();
    if (like.rows.chunks) batch_.rows.chunks = slim(*like.rows.chunks);
    return;
  }
  const Segments& from = like.documents;
  Segments& to = batch_.documents;
  const std::int64_t tokens = like.tokens.numel();
  to.cu = buffer(from.cu, documents + 1);
  to.max_len = like.tokens.size(1);
  if (from.chunks) {
    const std::shared_ptr<ChunkLayout> layout = slim(*from.chunks);
    // A document of n tokens has at most n / C + 1 chunks. One entry more: empty documents at the
    // end of a full table read the entry behind it.
    layout->chunks = tokens / layout->chunk + documents;
    layout->spans = spans_ = buffer(layout->spans, layout->chunks + 1);
    layout->segment_chunks = segment_chunks_ = buffer(layout->segment_chunks, documents + 1);
    layout->position = position_ = at::zeros_like(layout->position);
    if (layout->always_taps) layout->taps = taps_ = at::zeros_like(layout->taps);
    to.chunks = layout;
  }
  if (from.rotary) {
    cos_ = at::zeros_like(from.rotary->cos), sin_ = at::zeros_like(from.rotary->sin);
    turn_ = at::zeros_like(from.rotary->turn);
    to.rotary = std::make_shared<const Rotary>(Rotary{cos_, sin_, turn_});
  }
  if (from.positions.defined()) to.positions = positions_ = at::zeros_like(from.positions);
  if (from.sparse) to.sparse = sparse_ = make_static_nsa_layout(*from.sparse, to);
}

bool StaticBatch::same_tokens(const Batch& batch) const {
  return batch.tokens.sizes() == batch_.tokens.sizes() &&
         batch.tokens.device() == batch_.tokens.device();
}

bool StaticBatch::fits(const Batch& batch) const {
  if (!same_tokens(batch)) return false;
  if (!varlen_) return batch.rows.cu_host == batch_.rows.cu_host;
  return batch.documents.count() <= documents_ &&
         batch.documents.max_len <= batch_.documents.max_len;
}

void StaticBatch::load(const Batch& batch) {
  if (!fits(batch)) internal_error("a batch does not fit the buffers of its graph");
  batch_.tokens.copy_(batch.tokens);
  batch_.targets.copy_(batch.targets);
  if (!varlen_) return;
  const Segments& from = batch.documents;
  fill_buffer(batch_.documents.cu, from.cu, batch.tokens.numel());
  if (from.chunks) {
    fill_buffer(spans_, from.chunks->spans, 0);
    fill_buffer(segment_chunks_, from.chunks->segment_chunks, from.chunks->chunks);
    position_.copy_(from.chunks->position);
    if (taps_.defined()) taps_.copy_(from.chunks->taps);
  }
  if (from.rotary) {
    cos_.copy_(from.rotary->cos), sin_.copy_(from.rotary->sin);
    turn_.copy_(from.rotary->turn);
  }
  if (from.positions.defined()) positions_.copy_(from.positions);
  if (from.sparse) load_nsa_layout(*sparse_, *from.sparse);
}

} // namespace assay
