// StaticBatch: device buffers of fixed addresses and sizes that take one prepared batch after
// another, so that a captured step reads each of them.
#pragma once

#include <cstdint>
#include <memory>

#include "model/config/train_config.h"
#include "model/layout/batch.h"

namespace assay {

// For layers in their fused forms on a GPU: what operator forms read of a ChunkLayout (gather,
// scatter, dead, above, and taps unless always_taps) or of an NsaLayout stays undefined.
//
// Packed: the rows' layout is that of `like`, and every batch must have the same rows. Varlen: room
// for `documents` of them. Documents that a batch lacks are empty segments behind its last token,
// chunks that it lacks have no tokens; max_len is the length of a row. cu_host is empty: the
// host must not read it.
class StaticBatch {
public:
  // Sizes follow `like`, which is not loaded. `path`: Packed or Varlen.
  StaticBatch(const Batch& like, Attention path, std::int64_t documents);

  bool fits(const Batch& batch) const;
  // Copies on the current stream; internal error if the batch does not fit.
  void load(const Batch& batch);
  const Batch& batch() const { return batch_; }

private:
  bool same_tokens(const Batch& batch) const;

  bool varlen_;
  std::int64_t documents_;
  Batch batch_;
  // Varlen; undefined: no layer reads it
  at::Tensor spans_, segment_chunks_, position_, taps_, cos_, sin_, turn_, positions_;
  std::shared_ptr<NsaLayout> sparse_;
};

// The first elements from `from`, the others `rest`.
void fill_buffer(const at::Tensor& to, const at::Tensor& from, std::int64_t rest);

} // namespace assay
