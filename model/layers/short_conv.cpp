#include "model/layers/short_conv.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "model/layers/autocast.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct ShortConv : torch::autograd::Function<ShortConv> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& taps) {
    const at::ScalarType type = wide_type(x);
    const at::Tensor full = x.to(type), kernel = weight.to(type).t().contiguous(),
                     keep = taps.to(type);
    at::Tensor sum = full * kernel[0];
    const std::int64_t tokens = x.size(0), reach = std::min(kernel.size(0), tokens);
    for (std::int64_t j = 1; j < reach; ++j) {
      at::Tensor later = sum.narrow(0, j, tokens - j);
      later.addcmul_(full.narrow(0, 0, tokens - j) * keep[j - 1].narrow(0, j, tokens - j),
                     kernel[j]);
    }
    ctx->save_for_backward({x, weight, taps, sum});
    return at::silu(sum).to(x.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &taps = saved[2], &sum = saved[3];
    const at::ScalarType type = sum.scalar_type();
    const at::Tensor full = x.to(type), kernel = weight.to(type).t().contiguous(),
                     keep = taps.to(type);
    const at::Tensor d_sum = at::silu_backward(grads[0].to(type), sum);
    const std::int64_t tokens = x.size(0), reach = std::min(kernel.size(0), tokens);
    at::Tensor d_x = d_sum * kernel[0];
    at::Tensor d_kernel = at::zeros_like(kernel);
    d_kernel[0].copy_((d_sum * full).sum(0));
    for (std::int64_t j = 1; j < reach; ++j) {
      const at::Tensor kept = d_sum.narrow(0, j, tokens - j) * keep[j - 1].narrow(0, j, tokens - j);
      d_x.narrow(0, 0, tokens - j).addcmul_(kept, kernel[j]);
      d_kernel[j].copy_((kept * full.narrow(0, 0, tokens - j)).sum(0));
    }
    return {d_x.to(x.scalar_type()), d_kernel.t().to(weight.scalar_type()), at::Tensor()};
  }
};

} // namespace

at::Tensor short_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& taps) {
  return ShortConv::apply(x, weight, taps);
}

} // namespace assay
