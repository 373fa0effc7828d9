#include "model/layers/gelu.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/custom_function.h>

#include "core/span.h"
#include "kernels/cuda_check.h"
#include "kernels/rowwise/rowwise.h"
#include "model/layers/autocast.h"
#include "model/layers/bf16_data.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

bool gelu_takes_kernels(const at::Tensor& in, const at::Tensor& bias) {
  return in.is_cuda() && in.scalar_type() == at::kBFloat16 && bias.scalar_type() == at::kFloat &&
         in.size(1) % 8 == 0;
}

at::Tensor device_forward(const at::Tensor& in, const at::Tensor& bias) {
  const c10::cuda::CUDAGuard guard(in.device());
  at::Tensor y = at::empty_like(in);
  rowwise::launch_bias_gelu({bf16_data(in),
                             bias.const_data_ptr<float>(),
                             bf16_data(y),
                             y.size(0),
                             static_cast<int>(y.size(1))},
                            c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "bias and GELU, forward");
  return y;
}

tensor_list device_backward(const at::Tensor& in, const at::Tensor& bias, const at::Tensor& grad) {
  const c10::cuda::CUDAGuard guard(in.device());
  const at::Tensor dy = grad.to(at::kBFloat16).contiguous();
  at::Tensor d_in = at::empty_like(in);
  at::Tensor partial = at::empty({rowwise::kGeluPartialRows, in.size(1)}, bias.options());
  rowwise::launch_bias_gelu_backward({bf16_data(in),
                                      bias.const_data_ptr<float>(),
                                      bf16_data(dy),
                                      bf16_data(d_in),
                                      partial.data_ptr<float>(),
                                      dy.size(0),
                                      static_cast<int>(dy.size(1))},
                                     c10::cuda::getCurrentCUDAStream());
  check_cuda(cudaGetLastError(), "bias and GELU, backward");
  return {d_in, partial.sum(0)};
}

struct FusedBiasGelu : torch::autograd::Function<FusedBiasGelu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& given, const at::Tensor& bias) {
    const Span span("ffn_gate/fused");
    const at::Tensor in = given.contiguous();
    ctx->save_for_backward({in, bias});
    if (gelu_takes_kernels(in, bias)) return device_forward(in, bias);
    return at::gelu(in.to(wide_type(in)) + bias, "tanh").to(in.scalar_type());
  }
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &in = saved[0], &bias = saved[1];
    if (gelu_takes_kernels(in, bias)) return device_backward(in, bias, grads[0]);
    const at::Tensor x = in.to(wide_type(in)) + bias;
    const at::Tensor dx = at::gelu_backward(grads[0].to(x.scalar_type()), x, "tanh");
    return {dx.to(in.scalar_type()), dx.sum(0).to(bias.scalar_type())};
  }
};

} // namespace

at::Tensor fused_bias_gelu(const at::Tensor& in, const at::Tensor& bias) {
  return FusedBiasGelu::apply(in, bias);
}

} // namespace assay
