// Casts of a matrix to 8-bit floats with one scale a tensor, as _scaled_mm takes them: row by row,
// and column by column (the transpose) from one reading.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/fp8/problem.h"

namespace assay {

// Rounds x / inverse_scale to nearest even. inf in x gives NaN. Two launches, one where amax is
// known, asynchronous on `stream`; the caller checks cudaGetLastError(). Reads 16 bytes at a time
// where x begins at a multiple of 16 bytes and `stride` is a multiple of 8, else single elements.
void launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream);

} // namespace assay
