// Casts of a matrix to 8-bit floats with one scale a tensor, as _scaled_mm takes them: row by row,
// and column by column (the transpose) from one reading. All launches are asynchronous on `stream`;
// the caller checks cudaGetLastError().
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/fp8/problem.h"
#include "kernels/rowwise/rows.h"

namespace assay {

// Rounds x / inverse_scale to nearest even. inf in x gives NaN. Two launches, one where amax is
// known or the scale is delayed. Reads 16 bytes at a time where x begins at a multiple of 16 bytes
// and `stride` is a multiple of 8, else single elements.
void launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream);

// Several casts of fp32 to e4m3 in two launches, each by its own largest value: `casts` and `tiles`
// on the device, in tiles of kFp8Tile rows and columns. x begins at a multiple of 16 bytes, and
// `stride` is a multiple of 8.
constexpr std::int64_t kFp8Tile = 128;
void launch_fp8_casts(const Fp8Cast* casts,
                      const Fp8Tile* tiles,
                      unsigned tile_count,
                      cudaStream_t stream);

// One launch each. Norms: RMS norms, whose y is not written.
void launch_fp8_swiglu(const Fp8SwiGlu& p, cudaStream_t stream);
template <class Stream>
void launch_fp8_add_norm(const rowwise::AddNorm<Stream>& p,
                         const Fp8Written& to,
                         cudaStream_t stream);
void launch_fp8_gated_norm(const rowwise::GatedNorm& p, const Fp8Written& to, cudaStream_t stream);
void launch_fp8_roll(const Fp8History& p, cudaStream_t stream); // at the end of a step

} // namespace assay
