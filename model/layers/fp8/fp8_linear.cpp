#include "model/layers/fp8/fp8_linear.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8/cast.h"
#include "model/layers/fp8/fp8_largest.h"
#include "model/layers/linear/int8_linear.h"
#include "model/layers/linear/kept_weights.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr double kLeast = 1e-12; // as the kernel's
constexpr int kLeastCapability = 89;
constexpr std::int64_t kSlots = 256;

thread_local Fp8Casts* active_fp8 = nullptr;
thread_local bool left_out = false; // a guard around the innermost one is not null

double largest(at::ScalarType format) {
  return format == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
}

using From = Fp8Scale::From;

// As the kernels: inf gives NaN, values above what the scale expects become the largest code.
Fp8Matrix
cast_on_cpu(const at::Tensor& x, at::ScalarType format, Fp8Orders orders, const Fp8Scale& scale) {
  const at::Tensor values = x.to(at::kFloat);
  at::Tensor from = values.abs().amax();
  if (scale.slot.defined()) {
    at::Tensor now = scale.slot[0];
    now.copy_(at::maximum(now, from));
    from = scale.from == From::Delayed ? scale.slot[1] : now;
  }
  const at::Tensor bounded = from.clamp_min(kLeast);
  const double most = largest(format);
  at::Tensor codes =
      at::zeros({fp8_padded(x.size(0)), fp8_padded(x.size(1))}, x.options().dtype(format));
  codes.narrow(0, 0, x.size(0))
      .narrow(1, 0, x.size(1))
      .copy_((values * (most / bounded)).clamp(-most, most) + values * 0);
  Fp8Matrix result;
  result.inverse_scale = bounded / most;
  if (orders != Fp8Orders::Columns) result.by_rows = codes;
  if (orders != Fp8Orders::Rows) result.by_columns = codes.t().contiguous();
  return result;
}

// As the kernels read it: rows of fp32 or bf16, any distance apart.
at::Tensor readable_input(const at::Tensor& x) {
  const bool fits = x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16;
  const at::Tensor values = fits ? x : x.to(at::kFloat);
  const bool rows = values.stride(1) == 1 && values.stride(0) >= values.size(1);
  return rows ? values : values.contiguous();
}

at::Tensor zero_slot(const at::Device& device) {
  return at::zeros({kFp8SlotFloats}, at::TensorOptions().device(device).dtype(at::kFloat));
}

Fp8Matrix
cast_on_cuda(const at::Tensor& x, at::ScalarType format, Fp8Orders orders, const Fp8Scale& scale) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor given = readable_input(x);
  const std::int64_t rows = fp8_padded(x.size(0)), columns = fp8_padded(x.size(1));
  Fp8Matrix result;
  const at::TensorOptions bytes = x.options().dtype(format);
  if (orders != Fp8Orders::Columns) result.by_rows = at::empty({rows, columns}, bytes);
  if (orders != Fp8Orders::Rows) result.by_columns = at::empty({columns, rows}, bytes);
  const at::Tensor place = scale.slot.defined() ? scale.slot : zero_slot(x.device());
  result.inverse_scale = place[kFp8SlotFloats / 2];
  Fp8Cast cast;
  cast.x = given.const_data_ptr();
  cast.source = given.scalar_type() == at::kFloat ? Fp8Source::Float : Fp8Source::Bf16;
  cast.format = format == at::kFloat8_e4m3fn ? Fp8Format::E4M3 : Fp8Format::E5M2;
  cast.rows = x.size(0);
  cast.columns = x.size(1);
  cast.stride = given.size(0) > 1 ? given.stride(0) : cast.columns;
  cast.padded_rows = rows;
  cast.padded_columns = columns;
  cast.amax = place.mutable_data_ptr<float>();
  cast.known = scale.from == From::Known;
  if (scale.from == From::Delayed) cast.delayed = cast.amax + 1;
  if (result.by_rows.defined()) cast.by_rows = result.by_rows.mutable_data_ptr();
  if (result.by_columns.defined()) cast.by_columns = result.by_columns.mutable_data_ptr();
  cast.inverse_scale = result.inverse_scale.mutable_data_ptr<float>();
  launch_fp8_cast(cast, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  return result;
}

// As the kernel that wrote x has noted its largest magnitude, or by `scale`.
Fp8Matrix cast_once(const at::Tensor& x,
                    at::ScalarType format,
                    Fp8Orders orders,
                    const std::function<Fp8Scale()>& scale) {
  const at::Tensor known = take_largest(x);
  if (!known.defined()) return to_fp8(x, format, orders, scale());
  count("fp8/largest_known");
  return to_fp8(x, format, orders, {known, From::Known});
}

bool has(const Fp8Matrix& matrix, Fp8Orders orders) {
  return (orders == Fp8Orders::Columns || matrix.by_rows.defined()) &&
         (orders == Fp8Orders::Rows || matrix.by_columns.defined());
}

// a [M, K] row-major times the transpose of b [N, K] row-major, to [M, N].
at::Tensor scaled_product(const at::Tensor& a,
                          const at::Tensor& a_scale,
                          const at::Tensor& b,
                          const at::Tensor& b_scale,
                          at::ScalarType out,
                          bool fast) {
  return at::_scaled_mm(a, b.t(), a_scale, b_scale, {}, {}, out, fast);
}

// Three products a linear: y = x W^T, dx = dy W, dW = dy^T x. `gradients`: whether a backward pass
// may follow.
struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static at::Tensor
  forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight, bool gradients) {
    const Fp8Orders orders = gradients ? Fp8Orders::Both : Fp8Orders::Rows;
    const Fp8Matrix& w = active_fp8->weight(weight, orders);
    const Fp8Matrix& input = active_fp8->input(x, weight, orders);
    if (gradients) {
      context->save_for_backward(
          {input.by_columns, input.inverse_scale, w.by_columns, w.inverse_scale});
      const Fp8Scale scale = active_fp8->scale(weight, Fp8Of::Gradient);
      context->saved_data["slot"] = scale.slot;
      context->saved_data["from"] = static_cast<std::int64_t>(scale.from);
      context->saved_data["rows"] = x.size(0);
      context->saved_data["out"] = weight.size(0);
      context->saved_data["in"] = weight.size(1);
      context->saved_data["type"] = static_cast<std::int64_t>(x.scalar_type());
    }
    return scaled_product(
               input.by_rows, input.inverse_scale, w.by_rows, w.inverse_scale, at::kBFloat16, true)
        .narrow(0, 0, x.size(0))
        .narrow(1, 0, weight.size(0));
  }

  static Fp8Matrix gradient(AutogradContext& context, const at::Tensor& dy) {
    if (const Fp8Matrix* written = fp8_of(dy)) {
      count("fp8/gradient_written");
      return *written;
    }
    return cast_once(dy, at::kFloat8_e5m2, Fp8Orders::Both, [&] {
      return Fp8Scale{context.saved_data["slot"].toTensor(),
                      static_cast<From>(context.saved_data["from"].toInt())};
    });
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t rows = context->saved_data["rows"].toInt(),
                       out = context->saved_data["out"].toInt(),
                       in = context->saved_data["in"].toInt();
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const Fp8Matrix dy = gradient(*context, grads[0]);
    at::Tensor dx =
        scaled_product(dy.by_rows, dy.inverse_scale, saved[2], saved[3], at::kBFloat16, false);
    at::Tensor dw =
        scaled_product(dy.by_columns, dy.inverse_scale, saved[0], saved[1], at::kFloat, false);
    return {dx.narrow(0, 0, rows).narrow(1, 0, in).to(type),
            dw.narrow(0, 0, out).narrow(1, 0, in),
            at::Tensor()};
  }
};

} // namespace

Fp8Matrix
to_fp8(const at::Tensor& x, at::ScalarType format, Fp8Orders orders, const Fp8Scale& scale) {
  if (x.dim() != 2 || (format != at::kFloat8_e4m3fn && format != at::kFloat8_e5m2))
    internal_error("to_fp8 takes a matrix, and e4m3fn or e5m2");
  return x.is_cuda() ? cast_on_cuda(x, format, orders, scale)
                     : cast_on_cpu(x, format, orders, scale);
}

const Fp8Matrix& Fp8Casts::weight(const at::Tensor& weight, Fp8Orders orders) {
  if (kept_ != nullptr) {
    if (!kept_are_cast_) kept_->cast();
    kept_are_cast_ = true;
    if (const Fp8Matrix* matrix = kept_->find(weight)) return *matrix;
    kept_->add(weight);
  }
  Fp8Matrix& matrix = weights_[weight.unsafeGetTensorImpl()];
  if (!has(matrix, orders)) {
    const at::NoGradGuard no_grad;
    count("fp8/weight_cast");
    matrix = to_fp8(weight, at::kFloat8_e4m3fn, orders, {slot(weight.device())});
  }
  return matrix;
}

const Fp8Matrix& Fp8Casts::input(const at::Tensor& x, const at::Tensor& weight, Fp8Orders orders) {
  if (const Fp8Matrix* written = fp8_of(x)) {
    count("fp8/input_written");
    return *written;
  }
  const bool same = input_ && input_->x._unsafe_get_target() == x.unsafeGetTensorImpl() &&
                    input_->version == x._version() && has(input_->matrix, orders);
  if (!same) {
    const at::NoGradGuard no_grad;
    count("fp8/input_cast");
    input_.reset(); // its memory serves the next
    input_ = Input{
        c10::weak_intrusive_ptr<c10::TensorImpl>(x.getIntrusivePtr()),
        x._version(),
        cast_once(x, at::kFloat8_e4m3fn, orders, [&] { return scale(weight, Fp8Of::Input); })};
  }
  return input_->matrix;
}

// In the first step the history's slots take the largest values that casts find themselves.
Fp8Scale Fp8Casts::scale(const at::Tensor& weight, Fp8Of of) {
  if (history_ == nullptr) return {slot(weight.device())};
  return {history_->slot(weight, of), delayed() ? From::Delayed : From::Itself};
}

at::Tensor Fp8Casts::slot(const at::Device& device) {
  if (!device.is_cuda()) return {};
  if (!slots_.defined() || slots_.device() != device || used_ == kSlots) {
    slots_ =
        at::zeros({kSlots, kFp8SlotFloats}, at::TensorOptions().device(device).dtype(at::kFloat));
    used_ = 0;
  }
  return slots_[used_++];
}

at::Tensor fp8_slot(const at::Device& device) {
  const bool wanted = active_fp8 != nullptr && !active_fp8->has_history();
  return wanted ? active_fp8->slot(device) : at::Tensor();
}

at::Tensor fp8_delayed_slot(const at::Tensor& weight, Fp8Of of) {
  const bool fits = active_fp8 != nullptr && active_fp8->delayed() && at::GradMode::is_enabled() &&
                    weight.defined() && weight.size(1) % kFp8Multiple == 0;
  return fits ? active_fp8->scale(weight, of).slot : at::Tensor();
}

Fp8Guard::Fp8Guard(Fp8Casts* casts) : outer_(active_fp8), outer_left_out_(left_out) {
  left_out = casts == nullptr && (outer_ != nullptr || outer_left_out_);
  active_fp8 = casts;
}

Fp8Guard::~Fp8Guard() {
  if (active_fp8 != nullptr) active_fp8->forget_input();
  active_fp8 = outer_;
  left_out = outer_left_out_;
}

void require_fp8(const at::Device& device) {
  if (!device.is_cuda()) return;
  const cudaDeviceProp& has = *at::cuda::getCurrentDeviceProperties();
  if (10 * has.major + has.minor < kLeastCapability)
    bad_input("precision = fp8 needs a GPU of compute capability 8.9 or more, {} has {}.{}: take "
              "bf16",
              has.name,
              has.major,
              has.minor);
}

at::Tensor apply_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (Int8Weights* const int8 = int8_weights_of_thread(); int8 != nullptr)
    return int8_linear(x, weight, bias, *int8);
  if (active_fp8 == nullptr) count(left_out ? "fp8/left_out" : "fp8/off");
  if (active_fp8 == nullptr || weight.size(1) % kFp8Multiple != 0) return linear16(x, weight, bias);
  count("fp8/linear");
  count(active_fp8->delayed() ? "fp8/delayed" : "fp8/current");
  const at::Tensor y = Fp8Linear::apply(x, weight, at::GradMode::is_enabled());
  return bias.defined() ? y + bias.to(y.scalar_type()) : y;
}

} // namespace assay
