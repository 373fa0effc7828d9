// What a cast to 8-bit floats takes.
#pragma once

#include <cstdint>

namespace assay {

enum class Fp8Format { E4M3, E5M2 }; // largest finite values 448 and 57344
enum class Fp8Source { Float, Bf16 };

struct Fp8Cast {
  const void* x = nullptr; // [rows, columns], rows `stride` apart
  Fp8Source source = Fp8Source::Float;
  Fp8Format format = Fp8Format::E4M3;
  std::int64_t rows = 0, columns = 0, stride = 0;
  std::int64_t padded_rows = 0, padded_columns = 0; // of the results, multiples of 16; what is
                                                    // beyond x becomes 0
  float* amax = nullptr;          // [1], 0 before: becomes max |x|, NaN if x has one
  bool known = false;             // amax is that already
  void* by_rows = nullptr;        // [padded_rows, padded_columns], 8-byte aligned, or null
  void* by_columns = nullptr;     // [padded_columns, padded_rows], 16-byte aligned, or null
  float* inverse_scale = nullptr; // [1]: max(amax, 1e-12) / largest finite value
};

} // namespace assay
