// What follows from a token's place in its segment: rotary angles, and the dense causal mask.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/layout/batch.h"

namespace assay {

// T tokens of segments; results lie on the device of `segments.cu`.
// int64 [T], from segments.first_position in each segment
at::Tensor segment_positions(const Segments& segments);

struct Rotary {
  at::Tensor cos, sin; // fp32 [T, 1, dim/2], at segment_positions()
  at::Tensor turn;     // the same as complex numbers, cos + i sin
};
Rotary make_rotary(const Segments& segments, std::int64_t dim);

// fp32 [L, L], 0 and -inf; undefined unless all segments have one length L: a dense mask exists
// only where the segments are the rows of a rectangle.
at::Tensor make_causal_mask(const std::vector<std::int32_t>& cu, at::Device device);

} // namespace assay
