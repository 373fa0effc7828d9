#include "model/layers/swiglu.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/rowwise/rowwise.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"
#include "model/layers/fp8/fp8_largest.h"

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

struct FusedSwiGlu : torch::autograd::Function<FusedSwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given) {
    const Span span("ffn_gate/fused");
    const at::Tensor in = given.contiguous();
    ctx->save_for_backward({in});
    if (swiglu_takes_kernels(in)) {
      ctx->saved_data["slot"] = fp8_slot(in.device()); // of the gradient
      return device_forward(in, fp8_slot(in.device()));
    }
    const std::vector<at::Tensor> halves = in.to(wide_type(in)).chunk(2, 1);
    return (at::silu(halves[0]) * halves[1]).to(in.scalar_type());
  }
  // y = a s v, s = sigmoid(a): da = dy v (s + a s (1 - s)), dv = dy a s
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const at::Tensor in = ctx->get_saved_variables()[0];
    if (swiglu_takes_kernels(in))
      return {device_backward(in, grads[0], ctx->saved_data["slot"].toTensor())};
    const at::ScalarType type = wide_type(in);
    const std::vector<at::Tensor> halves = in.to(type).chunk(2, 1);
    const at::Tensor dy = grads[0].to(type), s = at::sigmoid(halves[0]), silu = halves[0] * s;
    return {at::cat({dy * halves[1] * (s + silu * (1 - s)), dy * silu}, 1).to(in.scalar_type())};
  }
};

} // namespace

at::Tensor fused_swiglu(const at::Tensor& in) {
  return FusedSwiGlu::apply(in);
}

} // namespace assay
