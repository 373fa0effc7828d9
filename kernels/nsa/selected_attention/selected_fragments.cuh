// Register fragments of mma.sync m16n8k16 (fp16, bf16 -> fp32), loaded from rows in device memory
// by 16-byte words without shared memory. In the instruction, lane = 4 r + c holds
//   A (16 x 16): rows r, r+8;  columns 2c, 2c+1, 2c+8, 2c+9
//   B (16 x 8):  rows 2c, 2c+1, 2c+8, 2c+9;  column r
//   C (16 x 8):  rows r, r+8;  columns 2c, 2c+1
// Two freedoms make wide loads possible:
// - a sum over d may run in any order: lane c takes 8 neighbours of d at 32 m + 8 c and feeds them
//   to two instructions, in A and B alike (`Row`);
// - columns of a result may be any d: lane r takes 8 neighbours of d at 64 m + 8 r of four rows and
//   feeds one to each of eight instructions (`Columns`). Lane c then holds d = 64 m + 16 c … + 15.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/vectors.cuh"

namespace assay {

struct Word16 {
  std::uint32_t w[4]; // 8 elements
};

// `row` is aligned to 16 bytes; nothing is read unless `exists`.
__device__ inline Word16 load_word(const void* row, int byte, bool exists) {
  if (!exists) return {{0, 0, 0, 0}};
  const uint4 x = *reinterpret_cast<const uint4*>(static_cast<const char*>(row) + byte);
  return {{x.x, x.y, x.z, x.w}};
}

// This lane's part of a row of kWidth elements, for a sum over d.
template <int kWidth> struct Row {
  Word16 part[kWidth / 32];
  __device__ __forceinline__ void load(const void* row, int c, bool exists = true) {
#pragma unroll
    for (int m = 0; m < kWidth / 32; ++m) part[m] = load_word(row, 64 * m + 16 * c, exists);
  }
};

// Element types of the kernels.
struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

template <class T> __device__ __forceinline__ std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, Bf16>)
    return simt::pack2(low, high);
  else
    return simt::pack2_fp16(low, high);
}

template <class T> __device__ __forceinline__ float2 unpack(std::uint32_t word) {
  if constexpr (std::is_same_v<T, Bf16>)
    return simt::unpack2(word);
  else
    return simt::unpack2_fp16(word);
}

template <class T>
__device__ __forceinline__ void
multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>)
    simt::mma(c, a, b0, b1);
  else
    simt::mma_fp16(c, a, b0, b1);
}

// c[i][j] += sum over d of A[i][d] B[j][d]: rows r and r+8 of A, row r of B.
template <class T, int kWidth>
__device__ __forceinline__ void
add_dots(float (&c)[4], const Row<kWidth>& upper, const Row<kWidth>& lower, const Row<kWidth>& b) {
#pragma unroll
  for (int m = 0; m < kWidth / 32; ++m)
#pragma unroll
    for (int half = 0; half < 4; half += 2) {
      const std::uint32_t a[4] = {upper.part[m].w[half],
                                  lower.part[m].w[half],
                                  upper.part[m].w[half + 1],
                                  lower.part[m].w[half + 1]};
      multiply<T>(c, a, b.part[m].w[half], b.part[m].w[half + 1]);
    }
}

// A 16 x 16 matrix as A of the next product, from two 16 x 8 results side by side.
template <class T> struct Weights {
  std::uint32_t a[4];
  __device__ Weights(const float (&left)[4], const float (&right)[4])
      : a{pack<T>(left[0], left[1]),
          pack<T>(left[2], left[3]),
          pack<T>(right[0], right[1]),
          pack<T>(right[2], right[3])} {}
};

// This lane's part of 16 rows for a product whose columns are d; its rows are 2c, 2c+1, 2c+8, 2c+9.
template <int kWidth> struct Columns {
  Word16 part[kWidth / 64][4];
  template <class RowOf> __device__ __forceinline__ void load(RowOf&& row_of, int r, int c) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int index = 2 * c + (i & 1) + 8 * (i >> 1);
      const void* row = row_of(index); // null: a row of zeros
#pragma unroll
      for (int m = 0; m < kWidth / 64; ++m)
        part[m][i] = load_word(row, 128 * m + 16 * r, row != nullptr);
    }
  }
};

// A 16 x kWidth result: row r: d = 64 m + 16 c + 8 i + j at value[m][j][i]; row r+8: at [i + 2].
template <int kWidth> struct Result {
  float value[kWidth / 64][8][4] = {};

  // += weights (16 x 16) rows (16 x kWidth)
  template <class T>
  __device__ __forceinline__ void add(const Weights<T>& weights, const Columns<kWidth>& rows) {
#pragma unroll
    for (int m = 0; m < kWidth / 64; ++m)
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const unsigned pick = (j & 1) != 0 ? 0x7632U : 0x5410U; // both high or both low halves
        const auto& x = rows.part[m];
        multiply<T>(value[m][j],
                    weights.a,
                    __byte_perm(x[0].w[j / 2], x[1].w[j / 2], pick),
                    __byte_perm(x[2].w[j / 2], x[3].w[j / 2], pick));
      }
  }

  __device__ __forceinline__ void scale_rows(float upper, float lower) {
#pragma unroll
    for (int m = 0; m < kWidth / 64; ++m)
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        value[m][j][0] *= upper;
        value[m][j][1] *= upper;
        value[m][j][2] *= lower;
        value[m][j][3] *= lower;
      }
  }

  // Row r (lower: r+8) to `row`, in T.
  template <class T> __device__ __forceinline__ void store(void* row, int c, bool lower) const {
#pragma unroll
    for (int m = 0; m < kWidth / 64; ++m)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = i + (lower ? 2 : 0);
        uint4 word;
        word.x = pack<T>(value[m][0][at], value[m][1][at]);
        word.y = pack<T>(value[m][2][at], value[m][3][at]);
        word.z = pack<T>(value[m][4][at], value[m][5][at]);
        word.w = pack<T>(value[m][6][at], value[m][7][at]);
        *reinterpret_cast<uint4*>(static_cast<char*>(row) + 128 * m + 32 * c + 16 * i) = word;
      }
  }
};

// Over the four lanes that hold one row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffU, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffU, x, 1);
  return x + __shfl_xor_sync(0xffffffffU, x, 2);
}

} // namespace assay
