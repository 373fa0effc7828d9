// Rows of heads, eight elements (16 bytes) a thread.
#pragma once

#include "kernels/nsa/places_problem.h"
#include "kernels/vectors.cuh"

namespace assay::nsa_places {

constexpr int kThreads = 256;

// Where the word `word` of head `head` of a place begins, in elements.
__device__ __forceinline__ std::int64_t
at_place(std::int64_t place, int head, int heads, int stride, int width) {
  return ((place / stride * heads + head) * stride + place % stride) * width;
}

// kToPlaces: the rows written are those of places, else those of tokens.
template <bool kToPlaces> __global__ void __launch_bounds__(kThreads) move_rows(PlacesProblem p) {
  const int words = p.width / 8;
  const std::int64_t all = p.count * p.heads * words,
                     i = static_cast<std::int64_t>(simt::block_index()) * kThreads +
                         simt::thread_index();
  if (i >= all) return;
  const int word = static_cast<int>(i % words), head = static_cast<int>(i / words % p.heads);
  const std::int64_t row = i / words / p.heads, other = p.index[row];
  const std::int64_t token = kToPlaces ? other : row, place = kToPlaces ? row : other;
  const std::int64_t at_token = (token * p.heads + head) * p.width,
                     there = at_place(place, head, p.heads, p.stride, p.width);
  uint4 x{};
  if (other >= 0)
    x = *reinterpret_cast<const uint4*>(p.from + (kToPlaces ? at_token : there) + 8 * word);
  *reinterpret_cast<uint4*>(p.to + (kToPlaces ? there : at_token) + 8 * word) = x;
}

} // namespace assay::nsa_places
