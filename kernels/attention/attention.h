// Launchers of kernels around latent attention. Asynchronous; the caller checks
// cudaGetLastError(). Sums have a fixed order: the same inputs give the same bits on every run.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/latent.h"

namespace assay::latent {

void launch_norm(const Norm& p, cudaStream_t stream);
void launch_norm_backward(const NormBackward& b, cudaStream_t stream);
void launch_heads(const Heads& p, cudaStream_t stream);
void launch_heads_backward(const HeadsBackward& b, cudaStream_t stream);

} // namespace assay::latent
