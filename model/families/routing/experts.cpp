#include "model/families/routing/experts.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "core/span.h"
#include "model/families/init.h"
#include "model/families/routing/gathered.h"
#include "model/layers/autocast.h"
#include "model/layers/linear/grouped_linear.h"
#include "model/layers/linear/kept_weights.h"
#include "model/layers/swiglu.h"

namespace assay {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The weights as they are; what the bias gets as its gradient is the experts' load less its mean.
struct LoadAsGradient : torch::autograd::Function<LoadAsGradient> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& weights,
                            const at::Tensor& bias,
                            const at::Tensor& experts) {
    at::Tensor load = at::zeros_like(bias);
    load.scatter_add_(0, experts.flatten(), at::ones({experts.numel()}, bias.options()));
    context->save_for_backward({load - load.mean()});
    return weights.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    return {grads[0], context->get_saved_variables()[0], at::Tensor()};
  }
};

} // namespace

Experts::Experts(ParameterFactory& make, const std::string& prefix, const TrainConfig& config)
    : taken_(config.experts_taken), form_(config.expert_form), gate_(config.ffn_gate) {
  const std::int64_t d = config.d_model, hidden = config.expert_dim, count = config.experts;
  const at::Tensor drawn = at::empty({count, d}).normal_(0, head_std(config), make.generator());
  router_ = make.add(prefix + "router", drawn, false);
  in_ = make.normal(prefix + "experts_in", {count, 2 * hidden, d}, matrix_std(d, config));
  out_ = make.normal(prefix + "experts_out", {count, d, hidden}, residual_std(hidden, config));
  balance_ = make.balance(prefix + "router_bias", count);
}

// In fp32 (fp64 of fp64) in every precision: scores decide what is computed.
Choice Experts::choose(const at::Tensor& rows) const {
  const at::Tensor wide = rows.to(wide_type(rows));
  const AutocastGuard exact(rows.device().type(), at::kFloat);
  const at::Tensor scores = at::linear(wide, router_.to(wide.scalar_type())).sigmoid();
  const at::Tensor experts =
      std::get<1>((scores.detach() + balance_.detach()).topk(taken_, -1, true, true));
  const at::Tensor chosen = scores.gather(1, experts);
  return {experts, LoadAsGradient::apply(chosen / chosen.sum(1, true), balance_, experts)};
}

at::Tensor Experts::run(const at::Tensor& rows) const {
  const Choice choice = [&] {
    const Span span("router");
    return choose(rows);
  }();
  return form_ == ExpertForm::Loop ? one_by_one(rows, choice) : grouped(rows, choice);
}

at::Tensor Experts::gated(const at::Tensor& in) const {
  if (gate_ == FfnGate::Fused) return fused_swiglu(in);
  const std::vector<at::Tensor> halves = in.chunk(2, 1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor Experts::one_by_one(const at::Tensor& rows, const Choice& choice) const {
  const Span span("experts/loop");
  const at::ScalarType type = product_type(rows);
  const std::vector<at::Tensor> in = in_.unbind(), out = out_.unbind(),
                                in16 = rounded_weight(in_, type).unbind(),
                                out16 = rounded_weight(out_, type).unbind();
  at::Tensor sum = at::zeros(rows.sizes(), rows.options().dtype(type));
  for (std::size_t e = 0; e < in.size(); ++e) {
    const at::Tensor hit = choice.experts.eq(static_cast<std::int64_t>(e));
    at::Tensor tokens = hit.any(1).nonzero().squeeze(1);
    if (tokens.numel() == 0) continue;
    at::Tensor weights = (choice.weights * hit).sum(1).index_select(0, tokens);
    if (const std::int64_t missing = kFewRows - tokens.numel(); missing > 0) {
      tokens = at::constant_pad_nd(tokens, {0, missing}); // the first token, with weight 0
      weights = at::constant_pad_nd(weights, {0, missing});
    }
    const at::Tensor y = kept_linear(
        gated(kept_linear(rows.index_select(0, tokens), in[e], in16[e])), out[e], out16[e]);
    sum = sum.index_add(0, tokens, y * weights.unsqueeze(1).to(type));
  }
  return sum;
}

at::Tensor Experts::grouped(const at::Tensor& rows, const Choice& choice) const {
  const Span span("experts/grouped");
  const at::ScalarType type = product_type(rows);
  const at::Tensor of_copy = choice.experts.flatten(); // a token has taken_ copies
  const at::Tensor order = of_copy.argsort(/*stable=*/true, 0, /*descending=*/false),
                   place = inverse_of(order);
  const at::Tensor ends = at::zeros({in_.size(0)}, of_copy.options())
                              .scatter_add_(0, of_copy, at::ones_like(of_copy))
                              .cumsum(0)
                              .to(at::kInt);
  const at::Tensor x = gathered(rows, order, place, taken_);
  const at::Tensor hidden = gated(grouped_linear(x, in_, rounded_weight(in_, type), ends));
  const at::Tensor y = grouped_linear(hidden, out_, rounded_weight(out_, type), ends);
  const at::Tensor of_token = gathered(y, place, order).view({-1, taken_, rows.size(1)});
  return (of_token * choice.weights.unsqueeze(2).to(type)).sum(1);
}

} // namespace assay
