#include "model/layers/linear/int8_linear.h"

#include <ATen/core/grad_mode.h>

#include "core/fallback.h"
#include "core/span.h"
#include "model/layers/linear/kept_weights.h"

namespace assay {

namespace {

constexpr double kLargest = 127;

thread_local Int8Weights* active_int8 = nullptr;

// What cuBLASLt takes.
bool fits(const at::Tensor& x, const at::Tensor& weight) {
  return !x.is_cuda() || (x.size(0) > 16 && weight.size(0) % 8 == 0 && weight.size(1) % 8 == 0);
}

} // namespace

Int8Rows to_int8(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scales = wide.abs().amax(1, true).div(kLargest);
  // A row of zeros has the scale 0; its integers are 0.
  const at::Tensor integers = wide.div(scales.clamp_min(1e-30)).round_();
  return {integers.clamp_(-kLargest, kLargest).to(at::kChar), scales};
}

const Int8Rows& Int8Weights::of(const at::Tensor& weight) {
  const auto [place, fresh] = rows_.try_emplace(weight.unsafeGetTensorImpl());
  if (fresh) place->second = to_int8(weight.detach());
  return place->second;
}

Int8Guard::Int8Guard(Int8Weights* weights) : outer_(active_int8) {
  active_int8 = weights;
}

Int8Guard::~Int8Guard() {
  active_int8 = outer_;
}

Int8Weights* int8_weights_of_thread() {
  return active_int8;
}

at::Tensor int8_linear(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& bias,
                       Int8Weights& to) {
  if (!fits(x, weight)) {
    note_fallback("fallback/int8");
    return linear16(x, weight, bias);
  }
  count("int8/linear");
  const Int8Rows rows = to_int8(x);
  const Int8Rows& columns = to.of(weight);
  at::Tensor y = at::_int_mm(rows.integers, columns.integers.t()).to(at::kFloat);
  y.mul_(rows.scales).mul_(columns.scales.t());
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

} // namespace assay
