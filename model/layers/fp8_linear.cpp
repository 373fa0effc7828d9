#include "model/layers/fp8_linear.h"

#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/result.h"
#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8_cast.h"
#include "model/layers/kept_weights.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kMultiple = 16; // of every size that _scaled_mm sums over or writes
constexpr double kLeast = 1e-12;       // as the kernel's

thread_local Fp8Weights* active_fp8 = nullptr;

std::int64_t padded(std::int64_t size) {
  return (size + kMultiple - 1) / kMultiple * kMultiple;
}

double largest(at::ScalarType format) {
  return format == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
}

Fp8Matrix cast_on_cpu(const at::Tensor& x, at::ScalarType format, Fp8Orders orders) {
  const at::Tensor values = x.to(at::kFloat);
  const at::Tensor amax = values.abs().amax().clamp_min(kLeast);
  const double most = largest(format);
  at::Tensor codes = at::zeros({padded(x.size(0)), padded(x.size(1))}, x.options().dtype(format));
  codes.narrow(0, 0, x.size(0))
      .narrow(1, 0, x.size(1))
      .copy_((values * (most / amax)).clamp(-most, most));
  Fp8Matrix result;
  result.inverse_scale = amax / most;
  if (orders != Fp8Orders::Columns) result.by_rows = codes;
  if (orders != Fp8Orders::Rows) result.by_columns = codes.t().contiguous();
  return result;
}

Fp8Matrix cast_on_cuda(const at::Tensor& x, at::ScalarType format, Fp8Orders orders) {
  const at::Tensor given = x.contiguous();
  const std::int64_t rows = padded(x.size(0)), columns = padded(x.size(1));
  Fp8Matrix result;
  const at::TensorOptions bytes = x.options().dtype(format);
  if (orders != Fp8Orders::Columns) result.by_rows = at::empty({rows, columns}, bytes);
  if (orders != Fp8Orders::Rows) result.by_columns = at::empty({columns, rows}, bytes);
  result.inverse_scale = at::empty({}, x.options().dtype(at::kFloat));
  const at::Tensor amax = at::zeros({}, x.options().dtype(at::kFloat));
  Fp8Cast cast;
  cast.x = given.const_data_ptr();
  cast.source = x.scalar_type() == at::kFloat      ? Fp8Source::Float
                : x.scalar_type() == at::kBFloat16 ? Fp8Source::Bf16
                                                   : Fp8Source::Half;
  cast.format = format == at::kFloat8_e4m3fn ? Fp8Format::E4M3 : Fp8Format::E5M2;
  cast.rows = x.size(0);
  cast.columns = x.size(1);
  cast.padded_rows = rows;
  cast.padded_columns = columns;
  cast.amax = amax.mutable_data_ptr<float>();
  if (result.by_rows.defined()) cast.by_rows = result.by_rows.mutable_data_ptr();
  if (result.by_columns.defined()) cast.by_columns = result.by_columns.mutable_data_ptr();
  cast.inverse_scale = result.inverse_scale.mutable_data_ptr<float>();
  launch_fp8_cast(cast, c10::cuda::getCurrentCUDAStream().stream());
  ASSAY_CUDA(cudaGetLastError());
  return result;
}

// a [M, K] row-major times the transpose of b [N, K] row-major, to [M, N].
at::Tensor product(const at::Tensor& a,
                   const at::Tensor& a_scale,
                   const at::Tensor& b,
                   const at::Tensor& b_scale,
                   at::ScalarType out,
                   bool fast) {
  return at::_scaled_mm(a, b.t(), a_scale, b_scale, {}, {}, out, fast);
}

// Three products a linear: y = x W^T, dx = dy W, dW = dy^T x.
struct Fp8Linear : torch::autograd::Function<Fp8Linear> {
  static at::Tensor
  forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    const Fp8Matrix& w = active_fp8->of(weight);
    const Fp8Matrix input = to_fp8(x, at::kFloat8_e4m3fn, Fp8Orders::Both);
    context->save_for_backward(
        {input.by_columns, input.inverse_scale, w.by_columns, w.inverse_scale});
    context->saved_data["rows"] = x.size(0);
    context->saved_data["out"] = weight.size(0);
    context->saved_data["in"] = weight.size(1);
    context->saved_data["type"] = static_cast<std::int64_t>(x.scalar_type());
    return product(
               input.by_rows, input.inverse_scale, w.by_rows, w.inverse_scale, at::kBFloat16, true)
        .narrow(0, 0, x.size(0))
        .narrow(1, 0, weight.size(0));
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const std::int64_t rows = context->saved_data["rows"].toInt(),
                       out = context->saved_data["out"].toInt(),
                       in = context->saved_data["in"].toInt();
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    const Fp8Matrix dy = to_fp8(grads[0], at::kFloat8_e5m2, Fp8Orders::Both);
    at::Tensor dx = product(dy.by_rows, dy.inverse_scale, saved[2], saved[3], at::kBFloat16, false);
    at::Tensor dw = product(dy.by_columns, dy.inverse_scale, saved[0], saved[1], at::kFloat, false);
    return {dx.narrow(0, 0, rows).narrow(1, 0, in).to(type), dw.narrow(0, 0, out).narrow(1, 0, in)};
  }
};

} // namespace

Fp8Matrix to_fp8(const at::Tensor& x, at::ScalarType format, Fp8Orders orders) {
  if (x.dim() != 2 || (format != at::kFloat8_e4m3fn && format != at::kFloat8_e5m2))
    internal_error("to_fp8 takes a matrix, and e4m3fn or e5m2");
  return x.is_cuda() ? cast_on_cuda(x, format, orders) : cast_on_cpu(x, format, orders);
}

const Fp8Matrix& Fp8Weights::of(const at::Tensor& weight) {
  const auto [place, fresh] = casts_.try_emplace(weight.unsafeGetTensorImpl());
  if (fresh) {
    const at::NoGradGuard no_grad;
    count("fp8/weight_cast");
    place->second = to_fp8(weight, at::kFloat8_e4m3fn, Fp8Orders::Both);
  }
  return place->second;
}

Fp8Guard::Fp8Guard(Fp8Weights* weights) : outer_(active_fp8) {
  active_fp8 = weights;
}

Fp8Guard::~Fp8Guard() {
  active_fp8 = outer_;
}

at::Tensor apply_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (active_fp8 == nullptr || weight.size(1) % kMultiple != 0) return linear16(x, weight, bias);
  count("fp8/linear");
  const at::Tensor y = Fp8Linear::apply(x, weight);
  return bias.defined() ? y + bias.to(y.scalar_type()) : y;
}

} // namespace assay
