// Residual sum and RMS norm, and the gated norm, whose results are written in 8 bits alone. The
// arithmetic is that of kernels/rowwise/add_norm.cuh and gated_norm.cuh.
#pragma once

#include "kernels/fp8/tile.cuh"
#include "kernels/rowwise/norm_row.cuh"

namespace assay::fp8 {

constexpr int kOwnRows = 4, kBlockRows = kOwnRows * kWarps; // of a warp, and of a block
constexpr int kColumnWords = kBlockRows / 4 + 1; // of a column in shared memory, and one to shift
                                                 // the next column to other banks

// Four codes of each of a warp's words of four columns.
template <int kWords> struct RowCodes { std::uint32_t of[kWords][kOwnRows]; };

// Column 4 k + j of the tile is at place j * (kWords * 32) + k: neighbouring lanes have
// neighbouring places.
template <int kWords>
__device__ __forceinline__ void share_rows(std::uint32_t (&tile)[kWords * 128 * kColumnWords],
                                           const RowCodes<kWords>& codes) {
  const int lane = thread_index() % 32, warp = thread_index() / 32;
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    std::uint32_t columns[4];
    transpose(columns, codes.of[w][0], codes.of[w][1], codes.of[w][2], codes.of[w][3]);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      tile[(j * kWords * 32 + lane + 32 * w) * kColumnWords + warp] = columns[j];
  }
}

template <int kWords>
__device__ __forceinline__ void
write_row_columns(const std::uint32_t (&tile)[kWords * 128 * kColumnWords],
                  const Fp8Written& to,
                  std::int64_t row0,
                  int width) {
  for (int i = thread_index(); i < kWords * 128 * 2; i += kThreads) {
    const int place = i / 2, half = i % 2;
    const int column = 4 * (place % (kWords * 32)) + place / (kWords * 32);
    const std::int64_t row = row0 + 16 * half;
    if (column >= width || row >= to.padded_rows) continue;
    const std::uint32_t* from = tile + place * kColumnWords + 4 * half;
    *reinterpret_cast<uint4*>(static_cast<char*>(to.by_columns) + column * to.padded_rows + row) =
        make_uint4(from[0], from[1], from[2], from[3]);
  }
}

// y is not written. A warp handles four rows, one after the other; a block 32.
template <class Stream, int kWords, bool kWhole>
__global__ void __launch_bounds__(kThreads, 3)
    add_norm_cast(rowwise::AddNorm<Stream> p, Fp8Written to) {
  __shared__ std::uint32_t tile[kWords * 128 * kColumnWords];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const std::int64_t row0 = static_cast<std::int64_t>(block_index()) * kBlockRows;
  const Scale<Fp8Format::E4M3> scale(*to.delayed);
  RowCodes<kWords> codes;
  int largest = 0;
#pragma unroll
  for (int i = 0; i < kOwnRows; ++i) {
    const std::int64_t row = row0 + kOwnRows * warp + i;
    Row<kWords, kWhole> x;
    if (row < p.rows) rowwise::norm_row<Stream, false>(x, p, static_cast<int>(row), lane);
    rowwise::round_row(x);
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      const float(&y)[4] = x.x[w];
      add_largest(largest, y);
      const std::uint32_t four = codes2<Fp8Format::E4M3>(scale.of(y[0]), scale.of(y[1])) |
                                 codes2<Fp8Format::E4M3>(scale.of(y[2]), scale.of(y[3])) << 16;
      codes.of[w][i] = four;
      const int column = 4 * (lane + 32 * w);
      if (row < to.padded_rows && (kWhole || column < p.width))
        *reinterpret_cast<std::uint32_t*>(static_cast<char*>(to.by_rows) + row * p.width + column) =
            four;
    }
  }
  share_rows<kWords>(tile, codes);
  __syncthreads();
  write_row_columns<kWords>(tile, to, row0, p.width);
  finish(to, scale, largest);
}

// y is not written.
template <int kHead>
__global__ void __launch_bounds__(kThreads, 3)
    gated_norm_cast(rowwise::GatedNorm p, Fp8Written to) {
  __shared__ Shared tile;
  const std::int64_t width = static_cast<std::int64_t>(p.heads) * p.head;
  const Part part(p.tokens, width); // whole heads are inside or beyond
  const Scale<Fp8Format::E4M3> scale(*to.delayed);
  float weight[kWord];
  load(weight, p.weight + part.column % kHead);
  Codes codes;
  int largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = part.readable(i);
    float y[kWord], gate[kWord];
    load(y, p.o + row * width + part.column);
    load(gate, p.gate + row * p.gate_stride + part.column);
    rowwise::gate_word<kHead>(y, gate, weight);
    round_bf16(y);
    if (!part.exists(i)) clear(y);
    add_largest(largest, y);
    encode(codes.low[i], codes.high[i], y, scale);
  }
  const Place place{to.by_rows, to.by_columns, to.padded_rows, width, part.row0, part.column0};
  write_rows(place, codes);
  share_columns(tile, codes);
  __syncthreads();
  write_columns(place, tile);
  finish(to, scale, largest);
}

} // namespace assay::fp8
