// What the cross entropy takes: rows of logits, which become their own gradient in place.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::rowwise {

// The target's logit is computed again in fp32 and takes the rounded one's place: half a bf16 step
// of a logit of 30 would put the loss of its row off by .06 nats.
struct Loss {
  bf16* logits;                // [rows, stride], 16-byte aligned, in: x weight^T
                               // out, with a factor: (softmax - onehot) * factor; beyond `columns`
                               // whatever comes in is overwritten
  const bf16* x;               // [rows, width], 8-byte aligned
  const bf16* weight;          // [columns, width], likewise
  const std::int64_t* targets; // [rows], below `columns`; a negative one is ignored
  const float* factor;         // one number above 0, on the device; null: losses alone
  float* losses;               // [rows], written: nats; 0 where the target is ignored
  int rows, columns;
  int stride; // loss_stride(columns)
  int width;  // a multiple of 4
};

// Row stride of the logits of any vocabulary: rows begin at multiples of 16 bytes.
constexpr std::int64_t loss_stride(std::int64_t columns) {
  return (columns + 7) / 8 * 8;
}
constexpr bool loss_width_fits(std::int64_t width) {
  return width % 4 == 0;
}

} // namespace assay::rowwise
