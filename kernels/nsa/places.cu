#include "kernels/nsa/places.h"

#include "kernels/nsa/places.cuh"

namespace assay {

namespace {

template <bool kToPlaces> void launch(const PlacesProblem& p, cudaStream_t stream) {
  const std::int64_t words = p.count * p.heads * (p.width / 8);
  if (words == 0) return;
  const auto grid =
      static_cast<unsigned>((words + nsa_places::kThreads - 1) / nsa_places::kThreads);
  nsa_places::move_rows<kToPlaces><<<grid, nsa_places::kThreads, 0, stream>>>(p);
}

} // namespace

void launch_to_places(const PlacesProblem& problem, cudaStream_t stream) {
  launch<true>(problem, stream);
}

void launch_from_places(const PlacesProblem& problem, cudaStream_t stream) {
  launch<false>(problem, stream);
}

} // namespace assay
