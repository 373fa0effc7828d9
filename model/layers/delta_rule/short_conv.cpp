#include "model/layers/delta_rule/short_conv.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "model/layers/autocast.h"

namespace assay {

at::Tensor tap_sums(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& taps) {
  const at::ScalarType type = x.scalar_type();
  const at::Tensor kernel = weight.to(type).t().contiguous(), keep = taps.to(type);
  at::Tensor sum = x * kernel[0];
  const std::int64_t tokens = x.size(0), reach = std::min(kernel.size(0), tokens);
  for (std::int64_t j = 1; j < reach; ++j) {
    at::Tensor later = sum.narrow(0, j, tokens - j);
    later.addcmul_(x.narrow(0, 0, tokens - j) * keep[j - 1].narrow(0, j, tokens - j), kernel[j]);
  }
  return sum;
}

TapGradients tap_gradients(const at::Tensor& d_sum,
                           const at::Tensor& x,
                           const at::Tensor& weight,
                           const at::Tensor& taps) {
  const at::ScalarType type = x.scalar_type();
  const at::Tensor kernel = weight.to(type).t().contiguous(), keep = taps.to(type);
  const std::int64_t tokens = x.size(0), reach = std::min(kernel.size(0), tokens);
  at::Tensor d_x = d_sum * kernel[0];
  at::Tensor d_kernel = at::zeros_like(kernel);
  d_kernel[0].copy_((d_sum * x).sum(0));
  for (std::int64_t j = 1; j < reach; ++j) {
    const at::Tensor kept = d_sum.narrow(0, j, tokens - j) * keep[j - 1].narrow(0, j, tokens - j);
    d_x.narrow(0, 0, tokens - j).addcmul_(kept, kernel[j]);
    d_kernel[j].copy_((kept * x.narrow(0, 0, tokens - j)).sum(0));
  }
  return {d_x, d_kernel.t().to(weight.scalar_type())};
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::tensor_list;

struct ShortConv : torch::autograd::Function<ShortConv> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& taps) {
    const at::Tensor sum = tap_sums(x.to(wide_type(x)), weight, taps);
    ctx->save_for_backward({x, weight, taps, sum});
    return at::silu(sum).to(x.scalar_type());
  }

  static tensor_list backward(AutogradContext* ctx, const tensor_list& grads) {
    const tensor_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &sum = saved[3];
    const at::ScalarType type = sum.scalar_type();
    const at::Tensor d_sum = at::silu_backward(grads[0].to(type), sum);
    const TapGradients d = tap_gradients(d_sum, x.to(type), saved[1], saved[2]);
    return {d.x.to(x.scalar_type()), d.weight, at::Tensor()};
  }
};

} // namespace

at::Tensor short_conv(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& taps) {
  return ShortConv::apply(x, weight, taps);
}

at::Tensor short_conv_piece(const at::Tensor& joined, const at::Tensor& weight) {
  const std::int64_t before = weight.size(1) - 1;
  const at::Tensor taps = at::ones({before, joined.size(0), 1}, joined.options().dtype(at::kFloat));
  return short_conv(joined, weight, taps).narrow(0, before, joined.size(0) - before);
}

} // namespace assay
