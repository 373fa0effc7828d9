#include "model/layers/gelu_feed_forward.h"

#include <torch/csrc/autograd/custom_function.h>

#include "core/fallback.h"
#include "core/result.h"
#include "core/span.h"
#include "model/layers/autocast.h"
#include "model/layers/linear/column_sum.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/linear/lt_product.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const char* span_of(Epilogue epilogue) {
  switch (epilogue) {
  case Epilogue::None:
    break;
  case Epilogue::Gelu:
    return "epilogue/gelu";
  case Epilogue::GeluBias:
    return "epilogue/gelu_bias";
  case Epilogue::All:
    return "epilogue/all";
  }
  internal_error("unknown epilogue");
}

GeluOfProduct gelu_of_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& b) {
  if (x.is_cuda()) return lt_gelu(x, weight, b);
  const at::Tensor in = at::addmm(b.to(x.scalar_type()), x, weight.t());
  return {at::gelu(in.to(wide_type(in)), "tanh").to(in.scalar_type()), in};
}

GradientOfGelu
gradient_of_gelu(const at::Tensor& dy, const at::Tensor& weight, const at::Tensor& in, bool sum) {
  if (dy.is_cuda()) return lt_gelu_gradient(dy, weight, in, sum);
  const at::ScalarType wide = wide_type(in);
  const at::Tensor d_in = at::gelu_backward(at::mm(dy, weight).to(wide), in.to(wide), "tanh");
  return {d_in.to(in.scalar_type()), sum ? d_in.sum(0) : at::Tensor()};
}

struct GeluFeedForward : torch::autograd::Function<GeluFeedForward> {
  static at::Tensor forward(AutogradContext* ctx,
                            const at::Tensor& x,
                            const at::Tensor& in,
                            const at::Tensor& in_bias,
                            const at::Tensor& out,
                            const at::Tensor& out_bias,
                            Epilogue epilogue) {
    const Span span(span_of(epilogue));
    const at::ScalarType type = product_type(x);
    const at::Tensor operand = x.to(type), in_copy = product_weight(in, type),
                     out_copy = product_weight(out, type);
    const auto [y, gelu_in] = gelu_of_product(operand, in_copy, in_bias);
    ctx->save_for_backward({operand, gelu_in, y, in_copy, out_copy});
    ctx->saved_data["x"] = static_cast<std::int64_t>(x.scalar_type());
    ctx->saved_data["weight"] = static_cast<std::int64_t>(in.scalar_type());
    ctx->saved_data["epilogue"] = static_cast<std::int64_t>(epilogue);
    ctx->saved_data["timed"] = products_timed();
    return at::addmm(out_bias.to(type), y, out_copy.t());
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &gelu_in = saved[1], &y = saved[2], &in_copy = saved[3],
                     &out_copy = saved[4];
    const auto weight_type = static_cast<at::ScalarType>(ctx->saved_data["weight"].toInt());
    const auto epilogue = static_cast<Epilogue>(ctx->saved_data["epilogue"].toInt());
    const ProductForm form{epilogue == Epilogue::All, ctx->saved_data["timed"].toBool()};
    const at::Tensor dy = grads[0].to(x.scalar_type());
    const LinearGradients out = linear_gradients(dy, y, weight_type, true, form);
    const auto [d_in, d_bias] = gradient_of_gelu(dy, out_copy, gelu_in, epilogue != Epilogue::Gelu);
    at::Tensor dx;
    if (ctx->needs_input_grad(0))
      dx = product(d_in, in_copy, in_copy.scalar_type(), form.timed)
               .to(static_cast<at::ScalarType>(ctx->saved_data["x"].toInt()));
    return {dx,
            product(d_in.t(), x, weight_type, form.timed),
            d_bias.defined() ? d_bias.to(weight_type) : column_sum(d_in, weight_type),
            out.weight,
            out.bias,
            at::Tensor()};
  }
};

bool products_take(const at::Tensor& x, const GeluWeights& weights, Epilogue epilogue) {
  return !x.is_cuda() ||
         lt_takes_gelu(x, product_type(x), weights.in, weights.out, epilogue != Epilogue::Gelu);
}

} // namespace

at::Tensor gelu_feed_forward(const at::Tensor& x, const GeluWeights& weights, Epilogue epilogue) {
  const bool asked = epilogue != Epilogue::None;
  if (asked && products_take(x, weights, epilogue))
    return GeluFeedForward::apply(
        x, weights.in, weights.in_bias, weights.out, weights.out_bias, epilogue);
  if (asked) note_fallback("fallback/epilogue");
  count("epilogue/none");
  return {};
}

} // namespace assay
