// Launchers of the gated delta rule's kernels, and of the two that make its inputs.
// Asynchronous; the caller checks cudaGetLastError(). The same inputs give the same bits on every
// run.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/delta_rule/inputs.h"
#include "kernels/delta_rule/problem.h"

namespace assay::delta_rule {

constexpr bool width_fits(std::int64_t width) {
  return width == 32 || width == 64 || width == 128;
}

// Into how many pieces chains are cut so that they fill the current device: 1, or at least 3 where
// few chains are long. By the table's room alone, so a CUDA graph keeps it.
int best_pieces(const Problem& problem, int width);

// Three kernels: prepare, state, output; five with pieces. Needs width_fits(width), compute
// capability 8.0 or newer.
void launch_forward(const Problem& problem, int width, cudaStream_t stream);
// Two kernels: reverse, gradients; four with pieces.
void launch_backward(const Gradients& gradients, int width, cudaStream_t stream);

// One kernel each. Need inputs_fit(width, heads, taps).
void launch_inputs(const RuleInputs& inputs, int width, cudaStream_t stream);
void launch_inputs_backward(const RuleInputGradients& gradients, int width, cudaStream_t stream);

} // namespace assay::delta_rule
