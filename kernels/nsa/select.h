// Choice of the blocks that a group of heads reads (NSA, arXiv 2502.11089, eq. 8-11): one warp per
// query and group scores the query's heads against the compressed keys, sums their probabilities
// and keeps the n best blocks. No score leaves the warp.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/nsa/select_problem.h"

namespace assay {

// Whether a warp's shared memory has room for a document's probabilities and scores of blocks, and
// the kernel takes the heads of a group and their width.
bool select_fits(const SelectProblem& problem);

// Asynchronous on `stream`. Refuses what does not fit.
cudaError_t launch_nsa_select(const SelectProblem& problem, cudaStream_t stream);

} // namespace assay
