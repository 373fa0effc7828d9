// The gradient of a large weight, added up over chunks of tokens: out += left^T right, by a kernel
// of our own for compute capability 9.0. Reading and writing `out` takes longer than a chunk's
// products; here one half of a block does so while the other half multiplies, which cuBLASLt's
// products do not.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::sum_product {

struct Problem {
  const bf16* left;  // [inner, rows], rows of it `left_stride` apart
  const bf16* right; // [inner, columns]
  float* out;        // [rows, columns]; in, with `add`: what the product is added to
  std::int64_t rows, columns, inner, left_stride;
  bool add;
};

// Whether the kernel takes the problem on a device of this compute capability (90: 9.0): only 9.0,
// addresses in multiples of 16 bytes, `columns` and `left_stride` multiples of 8.
bool takes(const Problem& problem, int capability);

// On the current device, which has `multiprocessors`. Sums are in fp32, in the same order in every
// call. Allocates nothing and waits for nothing, so that a CUDA graph can capture it. Failure: the
// call and CUDA's reason.
void launch(const Problem& problem, int multiprocessors, cudaStream_t stream);

} // namespace assay::sum_product
