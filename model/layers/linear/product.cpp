#include "model/layers/linear/product.h"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>

#include "core/fallback.h"
#include "core/span.h"
#include "kernels/products/timed_products.h"

namespace assay {

namespace {

// How a matrix lies in memory, if its rows or its columns are packed and aligned.
std::optional<timed_products::Operand> operand_of(const at::Tensor& x) {
  const bool rows = x.stride(1) == 1;
  if (!rows && x.stride(0) != 1) return std::nullopt;
  const timed_products::Operand operand{x.stride(rows ? 0 : 1), !rows};
  const std::int64_t packed = x.size(rows ? 1 : 0);
  const auto address = reinterpret_cast<std::uintptr_t>(x.const_data_ptr());
  if (operand.stride < packed || operand.stride % 8 != 0 ||
      address % timed_products::kAlignment != 0)
    return std::nullopt;
  return operand;
}

std::optional<timed_products::Shape>
timed_shape(const at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  const bool types = a.scalar_type() == at::kBFloat16 && b.scalar_type() == at::kBFloat16 &&
                     (out.scalar_type() == at::kBFloat16 || out.scalar_type() == at::kFloat);
  if (!a.is_cuda() || !types || out.numel() == 0 || a.size(1) == 0) return std::nullopt;
  const std::optional<timed_products::Operand> left = operand_of(a), right = operand_of(b),
                                               result = operand_of(out);
  if (!left || !right || !result || result->transposed) return std::nullopt;
  return timed_products::Shape{a.size(0),
                               b.size(1),
                               a.size(1),
                               *left,
                               *right,
                               result->stride,
                               out.scalar_type() == at::kFloat};
}

bool timed_product(const at::Tensor& out,
                   const at::Tensor& a,
                   const at::Tensor& b,
                   bool add,
                   const at::Tensor& bias = {}) {
  std::optional<timed_products::Shape> shape = timed_shape(out, a, b);
  if (!shape) return false;
  shape->biased = bias.defined();
  const c10::cuda::CUDAGuard guard(out.device());
  const cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  if (!timed_products::takes(handle, *shape)) return false;
  const at::Tensor workspace =
      at::empty({timed_products::kWorkspaceBytes}, out.options().dtype(at::kByte));
  timed_products::run(handle,
                      *shape,
                      {a.const_data_ptr(),
                       b.const_data_ptr(),
                       out.data_ptr(),
                       workspace.data_ptr(),
                       bias.defined() ? bias.const_data_ptr() : nullptr},
                      add,
                      c10::cuda::getCurrentCUDAStream());
  count("product_choice/timed");
  return true;
}

void count_choice(bool timed) {
  timed ? note_fallback("fallback/product_choice") : count("product_choice/heuristic");
}

} // namespace

void product_out(
    const at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add, bool timed) {
  if (timed && timed_product(out, a, b, add)) return;
  count_choice(timed);
  at::Tensor result = out;
  const at::ScalarType type = out.scalar_type();
  if (a.scalar_type() == type)
    add ? at::addmm_out(result, out, a, b) : at::mm_out(result, a, b);
  else
    add ? at::addmm_out(result, out, a, b, type) : at::mm_out(result, a, b, type);
}

at::Tensor
biased_product(const at::Tensor& bias, const at::Tensor& a, const at::Tensor& b, bool timed) {
  if (timed) {
    const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
    if (timed_product(out, a, b, false, bias)) return out;
  }
  count_choice(timed);
  return at::addmm(bias, a, b);
}

at::Tensor product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, bool timed) {
  if (a.is_cuda() || a.scalar_type() == type) {
    const at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options().dtype(type));
    product_out(out, a, b, false, timed);
    return out;
  }
  count_choice(timed);
  return at::mm(a.to(type), b.to(type));
}

} // namespace assay
