// Launchers of the kernels of RWKV-6 and Mamba-2's SSD. Asynchronous; the caller checks
// cudaGetLastError(). The same inputs give the same bits on every run. Need compute capability 8.0
// or newer.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/scan/problem.h"

namespace assay::scan {

constexpr bool state_fits(std::int64_t state_dim) { // N of SSD
  return state_dim == 64 || state_dim == 128;
}

// Two kernels: states, outputs; three where few chains are long.
void launch_rwkv6(const Rwkv6& problem, cudaStream_t stream);
// Three kernels: gradients of the states, of the inputs, of u; four where few chains are long.
void launch_rwkv6_backward(const Rwkv6Gradients& gradients, cudaStream_t stream);

// One kernel; three where few chains are long. state_fits(state_dim).
void launch_ssd(const Ssd& problem, int state_dim, cudaStream_t stream);
// Two kernels: gradients of the states and of x, then of b, c and a; four where few chains are
// long.
void launch_ssd_backward(const SsdGradients& gradients, int state_dim, cudaStream_t stream);

} // namespace assay::scan
