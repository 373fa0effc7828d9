// The two kernels of a cast to 8-bit floats. The first reads from the end of the tensor to its
// beginning, the second from the beginning on: what was written or read last is still in L2.
#pragma once

#include "kernels/fp8/tile.cuh"

namespace assay::fp8 {

constexpr int kReads = 4; // words under way

// Eight elements as they are read.
template <class T> struct Word;
template <> struct Word<bf16> {
  uint4 bits;
  __device__ __forceinline__ void read(const bf16* from) {
    bits = *reinterpret_cast<const uint4*>(from);
  }
  __device__ __forceinline__ void read(const bf16* from, std::int64_t left) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = 2 * i < left ? from[2 * i] : 0U;
      if (2 * i + 1 < left) pairs[i] |= static_cast<std::uint32_t>(from[2 * i + 1]) << 16;
    }
    bits = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  __device__ __forceinline__ void values(float (&x)[kWord]) const {
    unpack(x, bits);
  }
};
template <> struct Word<float> {
  float x_[kWord];
  __device__ __forceinline__ void read(const float* from) { load(x_, from); }
  __device__ __forceinline__ void read(const float* from, std::int64_t left) {
#pragma unroll
    for (int e = 0; e < kWord; ++e) x_[e] = e < left ? from[e] : 0.F;
  }
  __device__ __forceinline__ void values(float (&x)[kWord]) const {
#pragma unroll
    for (int e = 0; e < kWord; ++e) x[e] = x_[e];
  }
};

// `words` at from[i], of which left[i] elements exist; what is beyond becomes 0. Reads under a
// condition would wait for one another, so whole words are read without one. kWords: see
// launch_fp8_cast().
template <bool kWords, int kCount, class T>
__device__ __forceinline__ void
read(Word<T> (&words)[kCount], const T* const (&from)[kCount], const std::int64_t (&left)[kCount]) {
  bool whole = kWords;
#pragma unroll
  for (int i = 0; i < kCount; ++i) whole = whole && left[i] >= kWord;
  if (whole) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i].read(from[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) words[i].read(from[i], left[i]);
  }
}

// Of a tensor whose rows lie one after the other `columns` is its size and `rows` is 1.
struct Amax {
  const void* x;
  std::int64_t rows, columns, stride;
  float* amax;
};

template <bool kWords, class T> __global__ void __launch_bounds__(kThreads) amax_kernel(Amax p) {
  const std::int64_t words = (p.columns + kWord - 1) / kWord, all = words * p.rows,
                     step = static_cast<std::int64_t>(block_count()) * kThreads;
  int largest = 0;
  for (std::int64_t i = static_cast<std::int64_t>(block_index()) * kThreads + thread_index();
       i < all;
       i += kReads * step) {
    Word<T> read_words[kReads];
    const T* from[kReads];
    std::int64_t left[kReads];
#pragma unroll
    for (int k = 0; k < kReads; ++k) {
      const std::int64_t word = all - 1 - (i + k * step < all ? i + k * step : i);
      const std::int64_t row = p.rows == 1 ? 0 : word / words,
                         column = kWord * (word - row * words);
      from[k] = static_cast<const T*>(p.x) + row * p.stride + column;
      left[k] = p.columns - column;
    }
    read<kWords>(read_words, from, left);
#pragma unroll
    for (int k = 0; k < kReads; ++k) {
      float x[kWord];
      read_words[k].values(x);
      add_largest(largest, x);
    }
  }
  raise_to<kWarps>(p.amax, largest);
}

// The largest value is the cast's own, or (kDelayed) found while it is made.
template <bool kWords, bool kDelayed, class T, Fp8Format kFormat>
__device__ __forceinline__ void
cast_tile(const Fp8Cast& p, std::int64_t row0, std::int64_t column0) {
  __shared__ Shared tile;
  const Scale<kFormat> scale(kDelayed ? *p.delayed : *p.amax);
  const int thread = thread_index(), r = thread / 16, c = thread % 16;
  if (row0 == 0 && column0 == 0 && thread == 0) *p.inverse_scale = scale.inverse();
  const std::int64_t column = column0 + kWord * c, left = p.columns - column;
  Word<T> words[8];
  const T* from[8];
  std::int64_t exist[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = row0 + 8 * r + i;
    from[i] = static_cast<const T*>(p.x) + row * p.stride + column;
    exist[i] = row < p.rows ? left : 0;
  }
  read<kWords>(words, from, exist);
  Codes codes;
  int largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float x[kWord];
    words[i].values(x);
    if constexpr (kDelayed) add_largest(largest, x);
    encode(codes.low[i], codes.high[i], x, scale);
  }
  const Place place{p.by_rows, p.by_columns, p.padded_rows, p.padded_columns, row0, column0};
  write_rows(place, codes);
  if (p.by_columns != nullptr) {
    share_columns(tile, codes);
    __syncthreads();
    write_columns(place, tile);
  }
  if constexpr (kDelayed) raise_to<kWarps>(p.amax, largest);
}

template <bool kWords, bool kDelayed, class T, Fp8Format kFormat>
__global__ void __launch_bounds__(kThreads) cast_kernel(Fp8Cast p) {
  cast_tile<kWords, kDelayed, T, kFormat>(p,
                                          static_cast<std::int64_t>(block_row()) * kTile,
                                          static_cast<std::int64_t>(block_index()) * kTile);
}

// Casts of fp32 to e4m3, one block for a tile of any of them.
__global__ void __launch_bounds__(kThreads)
    cast_many_kernel(const Fp8Cast* casts, const Fp8Tile* tiles) {
  const Fp8Tile tile = tiles[block_index()];
  cast_tile<true, false, float, Fp8Format::E4M3>(casts[tile.cast], tile.row, tile.column);
}

__global__ void __launch_bounds__(kThreads)
    amax_many_kernel(const Fp8Cast* casts, const Fp8Tile* tiles) {
  const Fp8Tile tile = tiles[block_index()];
  const Fp8Cast p = casts[tile.cast];
  const int r = thread_index() / 16, c = thread_index() % 16;
  const std::int64_t column = tile.column + kWord * c;
  Word<float> words[8];
  const float* from[8];
  std::int64_t exist[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = tile.row + 8 * r + i;
    from[i] = static_cast<const float*>(p.x) + row * p.stride + column;
    exist[i] = row < p.rows ? p.columns - column : 0;
  }
  read<true>(words, from, exist);
  int largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float x[kWord];
    words[i].values(x);
    add_largest(largest, x);
  }
  raise_to<kWarps>(p.amax, largest);
}

} // namespace assay::fp8
