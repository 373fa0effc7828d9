// What the row kernels take. Tensors are contiguous unless a stride is named, on the device, and
// begin at multiples of 16 bytes.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace assay::rowwise {

constexpr float kEps = 1e-6F;      // of RMS norms; as model/layers/rms_norm.h
constexpr float kLayerEps = 1e-5F; // of layer norms; as model/layers/layer_norm.h

// sum = x + branch; y = sum / sqrt(mean(sum^2) + eps) * weight, of the sum as it is stored. With a
// bias, a layer norm: y = c / sqrt(mean(c^2) + eps) * weight + bias of c = sum - mean(sum). Stream:
// float or bf16, the type of the residual stream and of its gradient.
template <class Stream> struct AddNorm {
  const Stream* x;     // [rows, width]: the residual stream
  const bf16* branch;  // [rows, width]: what a mixer or a feed-forward adds; null: nothing
  const float* weight; // [width]
  Stream* sum;         // [rows, width], written; unused where branch is null
  bf16* y;             // [rows, width], written
  float* rstd;         // [rows], written
  int rows, width;
  const float* bias = nullptr; // [width] of a layer norm; null: an RMS norm
  float* mean = nullptr;       // [rows], written; of a layer norm
  float* amax = nullptr;       // raised to the largest |y|; null: not wanted
};
constexpr bool norm_width_fits(std::int64_t width) {
  return width % 8 == 0 && width >= 8 && width <= 1024;
}

// dx = next + r (w dy - u mean(u w dy)) with u = x r; partial: sums of u dy over each block's rows.
// A layer norm: dx = next + r (w dy - mean(w dy) - u mean(u w dy)) with u = (x - mean) r; partial
// is followed by as many rows of sums of dy.
template <class Stream> struct AddNormBackward {
  const Stream* x;     // [rows, width]: the normed row
  const float* rstd;   // [rows]
  const float* weight; // [width]
  const bf16* dy;      // [rows, width]
  const Stream* next;  // [rows, width]: gradient of the stream behind; null: none
  Stream* dx;          // [rows, width], written
  bf16* dx16;          // [rows, width], written: the same for products; null: not wanted
  float* partial;      // [kPartialRows, width], written; of a layer norm [2, kPartialRows, width]
  int rows, width;
  const float* mean = nullptr; // [rows] of a layer norm; null: an RMS norm
  float* amax = nullptr;       // raised to the largest |dx| as it is written in 16 bits
};

// y = norm(o) * weight * silu(gate), the norm over heads of `head` columns.
struct GatedNorm {
  const bf16* o;       // [tokens, heads * head]
  const bf16* gate;    // [tokens, heads * head], rows `gate_stride` apart
  const float* weight; // [head]
  bf16* y;             // [tokens, heads * head], written
  int tokens, heads, head, gate_stride;
  float* amax = nullptr; // raised to the largest |y|; null: not wanted
};
constexpr bool gated_head_fits(std::int64_t head) {
  return head == 32 || head == 64 || head == 128;
}

struct GatedNormBackward {
  GatedNorm forward; // y is not read
  const bf16* dy;    // [tokens, heads * head]
  bf16* d_o;         // [tokens, heads * head], written
  bf16* d_gate;      // [tokens, heads * head], rows `d_gate_stride` apart, written
  float* partial;    // [kPartialRows, head], written: sums of the weight's gradient
  int d_gate_stride;
};

constexpr int kPartialRows = 264; // blocks of a backward kernel, two an SM of an H200

// y = silu(gate) * value.
struct SwiGlu {
  const bf16* in; // [tokens, 2 * hidden]: gate | value
  bf16* y;        // [tokens, hidden], written
  std::int64_t tokens;
  int hidden;            // a multiple of 8
  float* amax = nullptr; // raised to the largest |y|; null: not wanted
};

struct SwiGluBackward {
  const bf16* in; // [tokens, 2 * hidden]
  const bf16* dy; // [tokens, hidden]
  bf16* d_in;     // [tokens, 2 * hidden], written
  std::int64_t tokens;
  int hidden;
  float* amax = nullptr; // raised to the largest |d_in|; null: not wanted
};

// y = gelu(in + bias) in the tanh form.
struct BiasGelu {
  const bf16* in;    // [tokens, hidden]
  const float* bias; // [hidden]
  bf16* y;           // [tokens, hidden], written
  std::int64_t tokens;
  int hidden; // a multiple of 8
};

constexpr int kGeluPartialRows = 132; // blocks of the backward kernel a group of columns

struct BiasGeluBackward {
  const bf16* in;    // [tokens, hidden]
  const float* bias; // [hidden]
  const bf16* dy;    // [tokens, hidden]
  bf16* d_in;        // [tokens, hidden], written
  float* partial;    // [kGeluPartialRows, hidden], written: sums of the bias's gradient
  std::int64_t tokens;
  int hidden;
};

// The sum over rows, in two kernels: sums of `parts` shares of the rows, then theirs.
struct ColumnSum {
  const bf16* x;  // [rows, width]
  float* partial; // [parts, width], written
  float* sum;     // [width], written
  std::int64_t rows;
  int width; // a multiple of 8
  int parts; // column_sum_parts() of rows and width
};

// Four blocks an SM of an H200 in all groups of columns, and four rows a warp.
constexpr int kColumnBlocks = 528, kColumnWarps = 8, kColumnRows = 4, kColumns = 32 * 8;
constexpr int column_sum_parts(std::int64_t rows, std::int64_t width) {
  const std::int64_t groups = (width + kColumns - 1) / kColumns;
  const std::int64_t most = (rows - 1) / kColumnWarps / kColumnRows + 1;
  const std::int64_t parts = kColumnBlocks / groups < most ? kColumnBlocks / groups : most;
  return parts < 1 ? 1 : static_cast<int>(parts);
}

} // namespace assay::rowwise
