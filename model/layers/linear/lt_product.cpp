#include "model/layers/linear/lt_product.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include "core/span.h"
#include "kernels/products/lt_products.h"

namespace assay {

namespace {

namespace lt = lt_products;

at::Tensor lt_aligned(const at::Tensor& x) {
  const at::Tensor whole = x.contiguous();
  const auto address = reinterpret_cast<std::uintptr_t>(whole.const_data_ptr());
  return address % lt::kAlignment == 0 ? whole : whole.clone();
}

bool lt_takes(const at::Tensor& like, at::ScalarType type, const lt::Shape& shape) {
  if (!like.is_cuda() || type != at::kBFloat16 || shape.rows == 0 || shape.inner == 0) return false;
  const std::int64_t last = shape.form == lt::Form::LeftSum ? shape.rows : shape.inner;
  if (shape.columns % 8 != 0 || last % 8 != 0) return false;
  const c10::cuda::CUDAGuard guard(like.device());
  return lt::workspace_bytes(at::cuda::getCurrentCUDABlasLtHandle(), shape).has_value();
}

// What a call reads; writes `out`, and of `gelu_in` and `bias` what the form writes.
struct LtTensors {
  at::Tensor left, right, out, gelu_in, bias;
};

void run_product(const lt::Shape& shape, const LtTensors& t) {
  const c10::cuda::CUDAGuard guard(t.out.device());
  const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  const auto bytes = lt::workspace_bytes(handle, shape).value_or(0);
  const at::Tensor workspace = at::empty({bytes}, t.out.options().dtype(at::kByte));
  lt::Pointers p;
  p.left = t.left.const_data_ptr(), p.right = t.right.const_data_ptr();
  p.out = t.out.data_ptr(), p.workspace = workspace.data_ptr();
  if (t.gelu_in.defined()) p.gelu_in = t.gelu_in.data_ptr();
  if (t.bias.defined()) p.bias = t.bias.data_ptr();
  lt::run(handle, shape, p, c10::cuda::getCurrentCUDAStream());
}

lt::Shape gelu_shape(const at::Tensor& x, const at::Tensor& weight) {
  return {lt::Form::BiasGelu, x.size(0), weight.size(0), weight.size(1)};
}

// Of a gradient of `rows` tokens behind `weight`, [out, hidden].
lt::Shape gradient_shape(std::int64_t rows, const at::Tensor& weight, bool sum) {
  return {sum ? lt::Form::GeluGradientSum : lt::Form::GeluGradient,
          rows,
          weight.size(1),
          weight.size(0)};
}

lt::Shape left_sum_shape(const at::Tensor& dy, const at::Tensor& x) {
  return {lt::Form::LeftSum, dy.size(1), x.size(1), dy.size(0)};
}

} // namespace

bool lt_takes_gelu(const at::Tensor& x,
                   at::ScalarType type,
                   const at::Tensor& weight,
                   const at::Tensor& next,
                   bool sum) {
  return lt_takes(x, type, gelu_shape(x, weight)) &&
         lt_takes(x, type, gradient_shape(x.size(0), next, sum));
}

GeluOfProduct lt_gelu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor y = at::empty({x.size(0), weight.size(0)}, x.options()), in = at::empty_like(y);
  run_product(gelu_shape(x, weight),
              {lt_aligned(x), lt_aligned(weight), y, in, lt_aligned(bias.to(x.scalar_type()))});
  count("kernel/lt_gelu");
  return {y, in};
}

GradientOfGelu
lt_gelu_gradient(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& in, bool sum) {
  const at::Tensor d_in = at::empty_like(in);
  at::Tensor d_bias;
  if (sum) d_bias = at::empty({in.size(1)}, in.options());
  run_product(gradient_shape(dy.size(0), weight, sum),
              {lt_aligned(dy), lt_aligned(weight), d_in, in, d_bias});
  return {d_in, d_bias};
}

bool lt_sums_left(const at::Tensor& dy, const at::Tensor& x, at::ScalarType type) {
  return type == at::kFloat && lt_takes(dy, dy.scalar_type(), left_sum_shape(dy, x));
}

LinearGradients lt_left_sum(const at::Tensor& dy, const at::Tensor& x) {
  const at::TensorOptions wide = dy.options().dtype(at::kFloat);
  const at::Tensor d_weight = at::empty({dy.size(1), x.size(1)}, wide),
                   d_bias = at::empty({dy.size(1)}, wide);
  run_product(left_sum_shape(dy, x),
              {lt_aligned(dy), lt_aligned(x), d_weight, at::Tensor(), d_bias});
  return {d_weight, d_bias};
}

} // namespace assay
