// Launchers of the kernels around the branches of native sparse attention. Asynchronous; the caller
// checks cudaGetLastError(). Sums have a fixed order: the same inputs give the same bits on every
// run.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/nsa/inputs_problem.h"

namespace assay::nsa {

void launch_inputs(const Inputs& p, cudaStream_t stream);
void launch_inputs_backward(const InputsBackward& p, cudaStream_t stream);
void launch_mix(const Mix& p, cudaStream_t stream);
void launch_mix_backward(const MixBackward& p, cudaStream_t stream);

} // namespace assay::nsa
