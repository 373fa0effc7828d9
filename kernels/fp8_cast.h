// Casts of a matrix to 8-bit floats with one scale a tensor, as _scaled_mm takes them: row by row,
// and column by column (the transpose) from one reading.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace assay {

enum class Fp8Format { E4M3, E5M2 }; // largest finite values 448 and 57344
enum class Fp8Source { Float, Bf16, Half };

struct Fp8Cast {
  const void* x = nullptr; // [rows, columns], contiguous
  Fp8Source source = Fp8Source::Float;
  Fp8Format format = Fp8Format::E4M3;
  std::int64_t rows = 0, columns = 0;
  std::int64_t padded_rows = 0, padded_columns = 0; // of the results; what is beyond x becomes 0
  float* amax = nullptr;          // [1], 0 before: becomes max |x|, NaN if x has one
  void* by_rows = nullptr;        // [padded_rows, padded_columns], or null
  void* by_columns = nullptr;     // [padded_columns, padded_rows], or null
  float* inverse_scale = nullptr; // [1]: max(amax, 1e-12) / largest finite value
};

// Rounds x / inverse_scale to nearest even. inf in x gives NaN. Asynchronous on `stream`; the
// caller checks cudaGetLastError().
void launch_fp8_cast(const Fp8Cast& cast, cudaStream_t stream);

} // namespace assay
