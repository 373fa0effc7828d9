// What casts to 8-bit floats take. A scale comes from the tensor's own largest value, or (delayed)
// from the largest ones of earlier steps, which kernels/fp8/history.cuh keeps.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

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
  float* amax = nullptr;                            // [1]: raised to max |x|, NaN if x has one
  bool known = false;                               // amax is that already
  const float* delayed = nullptr; // [1]: the largest value that the scale comes from, found before;
                                  // null: amax, 0 before
  void* by_rows = nullptr;        // [padded_rows, padded_columns], 8-byte aligned, or null
  void* by_columns = nullptr;     // [padded_columns, padded_rows], 16-byte aligned, or null
  float* inverse_scale = nullptr; // [1]: max(largest value, 1e-12) / largest finite value
};

// Where a kernel writes its result [rows, columns] in 8 bits alone, by rows and by columns: rounded
// to bf16 and cast as by Fp8Cast with `delayed`. Columns are a multiple of 16.
struct Fp8Written {
  std::int64_t padded_rows = 0;
  const float* delayed = nullptr;
  float *amax = nullptr, *inverse_scale = nullptr;
  void *by_rows = nullptr, *by_columns = nullptr;
};

// SwiGLU's result in e4m3 or, where `dy` is given, its gradient in e5m2, twice as wide.
struct Fp8SwiGlu {
  const bf16* in = nullptr;            // [tokens, 2 * hidden]: gate | value, 16-byte aligned
  const bf16* dy = nullptr;            // [tokens, hidden] of the backward pass, 16-byte aligned
  std::int64_t tokens = 0, hidden = 0; // hidden: a multiple of 16
  Fp8Written to;
};

// A tile of one of several casts.
struct Fp8Tile {
  std::int32_t cast, row, column; // first row and column
};

// What is kept of one tensor from step to step, in floats.
struct Fp8Slot {
  float now;     // max |x| in this step so far
  float largest; // of the history: what this step's scale comes from
  float place;   // in the history that the next step takes
  float unused;
  float inverse_scale; // of this step's codes; _scaled_mm reads it at a multiple of 16 bytes
  float free[3];
};
inline constexpr std::int64_t kFp8SlotFloats = sizeof(Fp8Slot) / sizeof(float);

struct Fp8History {
  Fp8Slot* slots; // [count]
  float* values;  // [count, length]: the largest values of the last steps, 0 where there was none
  int count, length;
};

} // namespace assay
