// What moves between tokens and places (kernels/nsa/places.h).
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay {

// T tokens of H heads, d wide, in 16 bits. Place p stride + i of position p holds the i-th of
// `stride` queries; its head h is at h stride + i.
struct PlacesProblem {
  const bf16* from;
  bf16* to;
  const std::int64_t* index; // to places: the token of each place; from places: the place of each
                             // token; < 0: zeros
  std::int64_t count;        // of tokens, or of places: rows that are written
  int heads, width, stride;  // width: a multiple of 8
};

} // namespace assay
