// SwiGLU and its gradient, written in 8 bits alone. The arithmetic is that of
// kernels/rowwise/swiglu.cuh.
#pragma once

#include "kernels/fp8/tile.cuh"

namespace assay::fp8 {

__global__ void __launch_bounds__(kThreads, 3) swiglu_cast(Fp8SwiGlu p) {
  __shared__ Shared tile;
  const Part part(p.tokens, p.hidden);
  const Scale<Fp8Format::E4M3> scale(*p.to.delayed);
  Codes codes;
  int largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const bf16* in = p.in + part.readable(i) * 2 * p.hidden + part.column;
    float gate[kWord], value[kWord];
    load(gate, in);
    load(value, in + p.hidden);
#pragma unroll
    for (int e = 0; e < kWord; ++e) gate[e] *= sigmoid(gate[e]) * value[e];
    round_bf16(gate);
    if (!part.exists(i)) clear(gate);
    add_largest(largest, gate);
    encode(codes.low[i], codes.high[i], gate, scale);
  }
  const Place place{
      p.to.by_rows, p.to.by_columns, p.to.padded_rows, p.hidden, part.row0, part.column0};
  write_rows(place, codes);
  share_columns(tile, codes);
  __syncthreads();
  write_columns(place, tile);
  finish(p.to, scale, largest);
}

// A block has a tile of the gate's gradient and that of the value's beside it.
__global__ void __launch_bounds__(kThreads, 2) swiglu_backward_cast(Fp8SwiGlu p) {
  __shared__ Shared tiles[2];
  const Part part(p.tokens, p.hidden);
  const Scale<Fp8Format::E5M2> scale(*p.to.delayed);
  Codes gates, values;
  int largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t row = part.readable(i);
    const bf16* in = p.in + row * 2 * p.hidden + part.column;
    float gate[kWord], value[kWord], dy[kWord];
    load(gate, in);
    load(value, in + p.hidden);
    load(dy, p.dy + row * p.hidden + part.column);
#pragma unroll
    for (int e = 0; e < kWord; ++e) {
      const float s = sigmoid(gate[e]), silu = gate[e] * s;
      gate[e] = dy[e] * value[e] * (s + silu * (1.F - s));
      value[e] = dy[e] * silu;
    }
    round_bf16(gate);
    round_bf16(value);
    if (!part.exists(i)) {
      clear(gate);
      clear(value);
    }
    add_largest(largest, gate);
    add_largest(largest, value);
    encode(gates.low[i], gates.high[i], gate, scale);
    encode(values.low[i], values.high[i], value, scale);
  }
  // The last tile of gates may reach into the values: it ends where they begin.
  Place rows{p.to.by_rows, nullptr, p.to.padded_rows, 2 * p.hidden, part.row0, part.column0};
  if (part.inside) {
    write_rows(rows, gates);
    rows.column0 += p.hidden;
    write_rows(rows, values);
  }
  share_columns(tiles[0], gates);
  share_columns(tiles[1], values);
  __syncthreads();
  Place columns{nullptr, p.to.by_columns, p.to.padded_rows, p.hidden, part.row0, part.column0};
  write_columns(columns, tiles[0]);
  columns.by_columns = static_cast<char*>(p.to.by_columns) + p.hidden * p.to.padded_rows;
  write_columns(columns, tiles[1]);
  finish(p.to, scale, largest);
}

} // namespace assay::fp8
