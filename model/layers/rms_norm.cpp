#include "model/layers/rms_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include "model/layers/autocast.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct L2Norm : torch::autograd::Function<L2Norm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x) {
    const at::Tensor full = x.to(wide_type(x));
    const at::Tensor inverse = (full * full).sum(-1, true).add_(kNormEps).rsqrt_();
    const at::Tensor y = full * inverse;
    ctx->save_for_backward({y, inverse});
    return y.to(x.scalar_type());
  }
  // y = x r: dx = r (dy - y <y, dy>)
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &y = saved[0], &inverse = saved[1];
    const at::Tensor dy = grads[0].to(y.scalar_type());
    const at::Tensor dx = at::addcmul(dy, y, (y * dy).sum(-1, true), -1).mul_(inverse);
    return {dx.to(grads[0].scalar_type())};
  }
};

// On the CPU LibTorch takes _fused_rms_norm apart into a dozen small operators each way; this needs
// half of them.
struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor inverse = (x * x).mean(-1, true).add_(kNormEps).rsqrt_();
    const at::Tensor unit = x * inverse;
    ctx->save_for_backward({unit, inverse, weight});
    return unit * weight;
  }
  // y = w u, u = x r: dx = r (w dy - u mean(u w dy)), dw = sum(u dy)
  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &unit = saved[0], &inverse = saved[1], &weight = saved[2], &dy = grads[0];
    const at::Tensor product = unit * dy;
    const at::Tensor d_weight = product.reshape({-1, weight.size(0)}).sum(0);
    const at::Tensor along =
        at::matmul(product, weight).unsqueeze(-1).div_(static_cast<double>(weight.size(0)));
    return {(dy * weight).addcmul_(unit, along, -1).mul_(inverse), d_weight};
  }
};

} // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight) {
  const at::Tensor full = x.to(wide_type(x));
  if (full.is_cuda())
    return std::get<0>(at::_fused_rms_norm(full, {full.size(-1)}, weight, kNormEps));
  return RmsNorm::apply(full, weight);
}

at::Tensor l2_norm(const at::Tensor& x) {
  return L2Norm::apply(x);
}

} // namespace assay
