#include "model/layout/static_nsa_layout.h"

#include <algorithm>

#include "model/layout/static_batch.h"

namespace assay {

std::shared_ptr<NsaLayout> make_static_nsa_layout(const NsaLayout& like,
                                                  const Segments& documents) {
  const NsaShape& shape = like.shape;
  const std::int64_t blocks = like.tokens / shape.stride; // l >= d: no documents have more
  const at::TensorOptions ints = like.document_start.options(),
                          longs = like.strided_place.options();
  auto layout = std::make_shared<NsaLayout>();
  layout->shape = shape;
  layout->documents.cu = documents.cu, layout->documents.max_len = documents.max_len;
  layout->tokens = like.tokens, layout->compressed_blocks = blocks;
  layout->document_start = at::zeros({like.tokens}, ints);
  layout->position = at::zeros({like.tokens}, ints);
  layout->compressed = {at::zeros({like.tokens}, longs), at::zeros({like.tokens}, longs)};
  layout->compressed_documents.cu = at::zeros_like(documents.cu);
  layout->compressed_documents.max_len =
      std::max<std::int64_t>(0, documents.max_len - shape.block) / shape.stride + 1;
  layout->strided_token = at::zeros({blocks * shape.stride}, longs);
  layout->strided_place = at::zeros({like.tokens}, longs);
  layout->block_tokens = at::zeros({blocks * shape.block}, longs);
  layout->token_blocks = at::zeros_like(like.token_blocks);
  return layout;
}

void load_nsa_layout(NsaLayout& to, const NsaLayout& from) {
  to.document_start.copy_(from.document_start);
  to.position.copy_(from.position);
  to.compressed.first.copy_(from.compressed.first);
  to.compressed.end.copy_(from.compressed.end);
  to.strided_place.copy_(from.strided_place);
  fill_buffer(to.compressed_documents.cu, from.compressed_documents.cu, from.compressed_blocks);
  fill_buffer(to.strided_token, from.strided_token, -1);
  fill_buffer(to.block_tokens, from.block_tokens, 0);
  // "No block" has the number behind the last one.
  to.token_blocks.copy_(from.token_blocks);
  to.token_blocks.masked_fill_(from.token_blocks.eq(from.compressed_blocks), to.compressed_blocks);
}

} // namespace assay
