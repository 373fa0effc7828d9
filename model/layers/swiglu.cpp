#include "model/layers/swiglu.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>
#include <utility>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/fp8/cast.h"
#include "kernels/rowwise/rowwise.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"
#include "model/layers/fp8/fp8_largest.h"
#include "model/layers/fp8/fp8_written.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool swiglu_takes_kernels(const at::Tensor& in) {
  return in.is_cuda() && in.scalar_type() == at::kBFloat16 && in.size(1) % 16 == 0;
}

at::Tensor device_forward(const at::Tensor& in, const at::Tensor& slot) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor y = at::empty({in.size(0), in.size(1) / 2}, in.options());
  rowwise::launch_swiglu(
      {bf16_data(in), bf16_data(y), y.size(0), static_cast<int>(y.size(1)), largest_of(slot)},
      c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "SwiGLU, forward");
  note_largest(y, slot);
  return y;
}

at::Tensor device_backward(const at::Tensor& in, const at::Tensor& grad, const at::Tensor& slot) {
  const c10::cuda::CUDAGuard guard(in.device());
  const at::Tensor dy = grad.to(at::kBFloat16).contiguous();
  at::Tensor d_in = at::empty_like(in);
  rowwise::launch_swiglu_backward({bf16_data(in),
                                   bf16_data(dy),
                                   bf16_data(d_in),
                                   dy.size(0),
                                   static_cast<int>(dy.size(1)),
                                   largest_of(slot)},
                                  c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "SwiGLU, backward");
  note_largest(d_in, slot);
  return d_in;
}

// The result or, of a defined dy, the gradient in 8 bits alone. `slot`: of fp8_delayed_slot().
at::Tensor device_fp8(const at::Tensor& in, const at::Tensor& given, const at::Tensor& slot) {
  const c10::cuda::CUDAGuard guard(in.device());
  const bool backward = given.defined();
  const at::Tensor dy = backward ? given.to(at::kBFloat16).contiguous() : given;
  const std::int64_t hidden = in.size(1) / 2, columns = backward ? 2 * hidden : hidden;
  Fp8Result y =
      fp8_result(in.size(0), columns, backward ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn, slot);
  launch_fp8_swiglu({bf16_data(in), backward ? bf16_data(dy) : nullptr, in.size(0), hidden, y.to},
                    c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "SwiGLU in FP8");
  return fp8_only({in.size(0), columns}, std::move(y.matrix));
}

// Slots of what is written in FP8 alone; nothing: 16 bits.
struct Slots {
  std::optional<at::Tensor> result, gradient;
};

struct FusedSwiGlu : torch::autograd::Function<FusedSwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const Slots& slots) {
    const Span span("ffn_gate/fused");
    const at::Tensor in = given.contiguous();
    ctx->save_for_backward({in});
    if (swiglu_takes_kernels(in)) {
      ctx->saved_data["delayed"] = slots.gradient.has_value();
      ctx->saved_data["slot"] = slots.gradient.value_or(fp8_slot(in.device())); // of the gradient
      if (slots.result) return device_fp8(in, {}, *slots.result);
      return device_forward(in, fp8_slot(in.device()));
    }
    const std::vector<at::Tensor> halves = in.to(wide_type(in)).chunk(2, 1);
    return (at::silu(halves[0]) * halves[1]).to(in.scalar_type());
  }
  // y = a s v, s = sigmoid(a): da = dy v (s + a s (1 - s)), dv = dy a s
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const at::Tensor in = ctx->get_saved_variables()[0];
    if (swiglu_takes_kernels(in)) {
      const at::Tensor slot = ctx->saved_data["slot"].toTensor();
      const bool delayed = ctx->saved_data["delayed"].toBool();
      return {delayed ? device_fp8(in, grads[0], slot) : device_backward(in, grads[0], slot),
              at::Tensor()};
    }
    const at::ScalarType type = wide_type(in);
    const std::vector<at::Tensor> halves = in.to(type).chunk(2, 1);
    const at::Tensor dy = grads[0].to(type), s = at::sigmoid(halves[0]), silu = halves[0] * s;
    return {at::cat({dy * halves[1] * (s + silu * (1 - s)), dy * silu}, 1).to(in.scalar_type()),
            at::Tensor()};
  }
};

} // namespace

at::Tensor fused_swiglu(const at::Tensor& in, const at::Tensor& from, const at::Tensor& to) {
  const bool fits = swiglu_takes_kernels(in) && in.size(1) % 32 == 0;
  const Slots slots{delayed_slot(fits, to, Fp8Of::Input),
                    delayed_slot(fits, from, Fp8Of::Gradient)};
  return FusedSwiGlu::apply(in, slots);
}

} // namespace assay
