// Attention of every query over the key blocks that it selected (NSA's selected branch, arXiv
// 2502.11089, section 3.3.2), forward and backward, for packed documents.
//
// T tokens, G key-value groups, H = G h query heads with h <= 16, width d of 64 or 128, n <= 32
// selected blocks of l' = 16, 32, 64 or 128 tokens. A warp does one query and group: its h heads
// are the rows of one 16-row matrix product, so each key is read once a group. Everything is
// contiguous and on the device; launches are asynchronous, the caller checks cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/nsa/selected_attention/selected_problem.h"

namespace assay {

void launch_selected_forward(const SelectedProblem& problem,
                             const SelectedOutput& output,
                             cudaStream_t stream);

// fp32: all three gradients in one pass.
void launch_selected_backward_fp32(const SelectedProblem& problem,
                                   const SelectedGradients& gradients,
                                   cudaStream_t stream);

// fp16 and bf16. First grad_q and delta; then, for every key block, over the queries that selected
// it.
void launch_selected_query_gradient(const SelectedProblem& problem,
                                    const SelectedGradients& gradients,
                                    cudaStream_t stream);
// Adds to counts [G T] (zero before) the queries that selected each place.
void launch_selected_count(const SelectedProblem& problem,
                           std::int32_t* counts,
                           cudaStream_t stream);
// Writes the queries of each place, in no fixed order; `cursor` [G T] has each place's begin and
// is moved to its end.
void launch_selected_fill(const SelectedProblem& problem,
                          std::int32_t* cursor,
                          std::int32_t* queries,
                          cudaStream_t stream);
void launch_selected_key_gradient(const SelectedProblem& problem,
                                  const SelectedGradients& gradients,
                                  const SelectedIndex& index,
                                  cudaStream_t stream);

} // namespace assay
