// FP8 linears (arXiv 2209.05433: e4m3 forward, e5m2 gradients), one scale a tensor taken from the
// tensor itself (its largest magnitude) or, with an Fp8Histories, that of inputs and gradients from
// earlier steps; products by _scaled_mm with fp32 accumulation.
//
// All three products are in FP8. For the gradient of a weight x and dy are also written transposed:
// per token (in + out) bytes at 4.1 TB/s, 0.24 ps (in + out). The product saves 2 in out FLOPs at
// 1250 instead of 700 TFLOP/s, 0.00126 ps in out. It gains from in out / (in + out) = 194 on; the
// narrowest linear of preset base, 768 to 288, has 209 (rates of one H200, 2026-11-22).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "model/layers/fp8/fp8_history.h"
#include "model/layers/fp8/fp8_matrix.h"
#include "model/layers/fp8/fp8_weights.h"

namespace assay {

enum class Fp8Orders { Rows, Columns, Both };

// Where a cast's scale comes from.
struct Fp8Scale {
  enum class From { Itself, Known, Delayed };
  // On x's device, as Fp8Slot of kernels/fp8/problem.h; undefined: the cast makes its own.
  at::Tensor slot;
  // Known: the slot holds x's largest magnitude already. Delayed: it holds that of earlier steps,
  // which larger values are cut to, and x's is added to those of this step.
  From from = From::Itself;
};

// x: [R, C] fp32, bf16 or fp16, on any device; kFloat8_e4m3fn or kFloat8_e5m2. inf gives NaN.
Fp8Matrix
to_fp8(const at::Tensor& x, at::ScalarType format, Fp8Orders orders, const Fp8Scale& scale = {});

// What a step has cast: each weight once, however many micro-batches read it, and the last input,
// which linears that follow one another may share.
class Fp8Casts {
public:
  // Both live longer. `history` null: scales come from the tensors themselves. `kept` null: weights
  // are cast one by one.
  explicit Fp8Casts(const Fp8Histories* history = nullptr, Fp8Weights* kept = nullptr)
      : history_(history), kept_(kept) {}
  // [out, in] in e4m3. Counts "fp8/weight_cast".
  const Fp8Matrix& weight(const at::Tensor& weight, Fp8Orders orders);
  // [T, in] in e4m3, for the linear with that weight. Counts "fp8/input_cast", and
  // "fp8/largest_known" (model/layers/fp8/fp8_largest.h) as every cast does that is spared a
  // reading; or "fp8/input_written" where x came so.
  const Fp8Matrix& input(const at::Tensor& x, const at::Tensor& weight, Fp8Orders orders);
  bool has_history() const { return history_ != nullptr; }
  // Whether scales of inputs and gradients come from earlier steps.
  bool delayed() const { return history_ != nullptr && history_->seen_a_step(); }
  // Of such a tensor's cast.
  Fp8Scale scale(const at::Tensor& weight, Fp8Of of);
  // Zeros [8] in fp32 for one cast to write its largest value and scale to: one fill serves many.
  at::Tensor slot(const at::Device& device);
  void forget_input() { input_.reset(); }

private:
  struct Input {
    c10::weak_intrusive_ptr<c10::TensorImpl> x; // while it is held no other tensor has its address
    std::int64_t version;
    Fp8Matrix matrix;
  };
  const Fp8Histories* history_;
  Fp8Weights* kept_;
  bool kept_are_cast_ = false;
  std::unordered_map<const c10::TensorImpl*, Fp8Matrix> weights_;
  std::optional<Input> input_;
  at::Tensor slots_;
  std::int64_t used_ = 0;
};

// apply_linear() below computes in FP8 while one lives on this thread; null: it does not, inside
// another one by request (fp8_layers).
class Fp8Guard {
public:
  explicit Fp8Guard(Fp8Casts* casts);
  ~Fp8Guard(); // forgets the last input
  Fp8Guard(const Fp8Guard&) = delete;
  Fp8Guard& operator=(const Fp8Guard&) = delete;

private:
  Fp8Casts* outer_;
  bool outer_left_out_;
};

// The slot of what the linear with that weight reads, for a kernel that writes it in FP8 by rows
// and by columns (fp8_only()) while a backward pass may follow. Undefined: write it in 16 bits.
at::Tensor fp8_delayed_slot(const at::Tensor& weight, Fp8Of of);

// Refuses a GPU without FP8 products: below compute capability 8.9.
void require_fp8(const at::Device& device);

// x W^T + bias: [T, in], [out, in] and [out], or undefined, give [T, out]. In FP8 the result is
// bf16 and `in` must divide by 16; where it does not, and without a guard, this is linear16().
// While an Int8Guard lives it is int8_linear(). Counts "fp8/linear", and "fp8/current" or
// "fp8/delayed"; without a guard "fp8/off", and inside one that is null "fp8/left_out".
at::Tensor apply_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

} // namespace assay
