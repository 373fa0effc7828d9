// Launchers of kernels that work row by row on the residual stream and on gates: bf16 between
// kernels, fp32 sums. Asynchronous; the caller checks cudaGetLastError(). Sums have a fixed order:
// the same inputs give the same bits on every run.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/rowwise/loss.h"
#include "kernels/rowwise/rows.h"

namespace assay::rowwise {

// RMS norms and layer norms, of a stream of float or bf16.
template <class Stream> void launch_add_norm(const AddNorm<Stream>& p, cudaStream_t stream);
template <class Stream>
void launch_add_norm_backward(const AddNormBackward<Stream>& p, cudaStream_t stream);
void launch_gated_norm(const GatedNorm& p, cudaStream_t stream);
void launch_gated_norm_backward(const GatedNormBackward& p, cudaStream_t stream);
void launch_swiglu(const SwiGlu& p, cudaStream_t stream);
void launch_swiglu_backward(const SwiGluBackward& p, cudaStream_t stream);
void launch_bias_gelu(const BiasGelu& p, cudaStream_t stream);
void launch_bias_gelu_backward(const BiasGeluBackward& p, cudaStream_t stream);
void launch_column_sum(const ColumnSum& p, cudaStream_t stream);
// A row that fits waits in shared memory between its sum and its gradient (115,000 columns on
// Hopper, 50,000 where a block has 99 KiB); a longer one is read twice.
void launch_loss(const Loss& p, cudaStream_t stream);

} // namespace assay::rowwise
