#include "model/layers/linear/kept_weights.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "core/fallback.h"
#include "core/span.h"
#include "model/layers/linear/column_sum.h"
#include "model/layers/linear/lt_product.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kKept = "weights16/kept", *kCast = "weights16/cast";

thread_local KeptWeights* active_kept = nullptr;

std::optional<at::Tensor> given(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

struct KeptLinear : torch::autograd::Function<KeptLinear> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& copy,
                            const std::optional<at::Tensor>& bias,
                            bool products_sum,
                            bool products_timed) {
    const at::Tensor operand = x.to(copy.scalar_type());
    context->save_for_backward({operand, copy});
    context->saved_data["x"] = static_cast<std::int64_t>(x.scalar_type());
    context->saved_data["weight"] = static_cast<std::int64_t>(weight.scalar_type());
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["products_sum"] = products_sum;
    context->saved_data["products_timed"] = products_timed;
    return bias ? biased_product(bias->to(copy.scalar_type()), operand, copy.t(), products_timed)
                : product(operand, copy.t(), copy.scalar_type(), products_timed);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &copy = saved[1];
    const auto type_of = [&](const char* name) {
      return static_cast<at::ScalarType>(context->saved_data[name].toInt());
    };
    const at::Tensor dy = grads[0].to(copy.scalar_type());
    const ProductForm form{context->saved_data["products_sum"].toBool(),
                           context->saved_data["products_timed"].toBool()};
    at::Tensor dx;
    if (context->needs_input_grad(0))
      dx = product(dy, copy, copy.scalar_type(), form.timed).to(type_of("x"));
    const auto [weight, bias] =
        linear_gradients(dy, x, type_of("weight"), context->saved_data["bias"].toBool(), form);
    return {dx, weight, at::Tensor(), bias, at::Tensor(), at::Tensor()};
  }
};

} // namespace

const at::Tensor& KeptWeights::of(const at::Tensor& weight) {
  const auto [place, fresh] = copies_.try_emplace(weight.unsafeGetTensorImpl());
  if (fresh) {
    const at::NoGradGuard no_grad;
    place->second = {weight, weight.detach().to(type_).contiguous()};
  }
  return place->second.copy;
}

at::Tensor KeptWeights::find(const at::Tensor& weight) const {
  const auto found = copies_.find(weight.unsafeGetTensorImpl());
  return found == copies_.end() ? at::Tensor() : found->second.copy;
}

void KeptWeights::refresh() {
  if (copies_.empty()) return;
  const Span span("weights16/refresh");
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> weights, copies;
  for (const auto& [impl, kept] : copies_) {
    weights.push_back(kept.weight);
    copies.push_back(kept.copy);
  }
  at::_foreach_copy_(copies, weights);
}

KeptGuard::KeptGuard(KeptWeights* weights) : outer_(active_kept) {
  active_kept = weights;
}

KeptGuard::~KeptGuard() {
  active_kept = outer_;
}

KeptWeights* kept_weights_of_thread() {
  return active_kept;
}

bool products_timed() {
  return active_kept != nullptr && active_kept->form().timed;
}

at::Tensor product_weight(const at::Tensor& weight, at::ScalarType type) {
  if (active_kept != nullptr && active_kept->type() == type) {
    count(kKept);
    return active_kept->of(weight);
  }
  count(kCast);
  return weight.to(type);
}

at::Tensor linear16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  if (active_kept == nullptr) {
    count(kCast);
    return at::linear(x, weight, given(bias));
  }
  count(kKept);
  return kept_linear(x, weight, active_kept->of(weight), bias, active_kept->form());
}

std::vector<at::Tensor> split_linear(const at::Tensor& x,
                                     const at::Tensor& weight,
                                     const Cut& cut,
                                     const at::Tensor& bias) {
  const std::vector<at::Tensor> weights = cut(weight);
  const std::vector<at::Tensor> biases =
      bias.defined() ? cut(bias) : std::vector<at::Tensor>(weights.size());
  const std::vector<at::Tensor> copies =
      active_kept != nullptr ? cut(active_kept->of(weight)) : std::vector<at::Tensor>();
  std::vector<at::Tensor> results;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    count(copies.empty() ? kCast : kKept);
    results.push_back(copies.empty()
                          ? at::linear(x, weights[i], given(biases[i]))
                          : kept_linear(x, weights[i], copies[i], biases[i], active_kept->form()));
  }
  return results;
}

at::Tensor kept_linear(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& copy,
                       const at::Tensor& bias,
                       ProductForm form) {
  return KeptLinear::apply(x, weight, copy, given(bias), form.sum, form.timed);
}

LinearGradients linear_gradients(
    const at::Tensor& dy, const at::Tensor& x, at::ScalarType type, bool bias, ProductForm form) {
  const auto weight_gradient = [&] { return product(dy.t(), x, type, form.timed); };
  if (!bias) return {weight_gradient(), at::Tensor()};
  if (form.sum && dy.is_cuda()) {
    if (lt_sums_left(dy, x, type)) return lt_left_sum(dy, x);
    note_fallback("fallback/epilogue");
  }
  return {weight_gradient(), column_sum(dy, type)};
}

} // namespace assay
