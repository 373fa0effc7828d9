// Queries of the compressed branch in their places, and back (model/nsa/nsa_strided.h): rows of the
// heads of a token are moved, so the gradient of either direction is the other one.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/nsa/places_problem.h"

namespace assay {

// Asynchronous on `stream`; the caller checks cudaGetLastError().
void launch_to_places(const PlacesProblem& problem, cudaStream_t stream);
void launch_from_places(const PlacesProblem& problem, cudaStream_t stream);

} // namespace assay
