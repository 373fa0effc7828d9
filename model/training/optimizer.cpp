#include "model/training/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

namespace assay {

double learning_rate(const TrainConfig& config, std::int64_t step) {
  if (step < config.warmup_steps)
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  const auto span =
      static_cast<double>(std::max<std::int64_t>(1, config.steps - config.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - config.warmup_steps) / span);
  const double cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return config.lr * (config.min_lr_ratio + (1.0 - config.min_lr_ratio) * cosine);
}

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm) {
  // LibTorch's CPU kernel adds squares in few fp32 accumulators, which loses 1e-3 of the norm of a
  // few million elements; its GPU kernel adds in a tree.
  const std::optional<at::ScalarType> type =
      gradients.front().is_cpu() ? std::optional(at::kDouble) : std::nullopt;
  const at::Tensor norm = at::stack(at::_foreach_norm(gradients, 2, type)).norm();
  if (max_norm > 0) at::_foreach_mul_(gradients, (max_norm / (norm + 1e-6)).clamp_max_(1.0));
  return norm;
}

AdamW::AdamW(const std::vector<Parameter>& parameters, const TrainConfig& config)
    : beta1_(config.beta1), beta2_(config.beta2), eps_(config.adam_eps) {
  const auto options = parameters.front().tensor.options().requires_grad(false).dtype(at::kFloat);
  lr_ = at::zeros({}, options);
  steps_ = at::zeros({}, options);
  groups_.resize(2);
  groups_[0].decay = config.weight_decay;
  for (const Parameter& parameter : parameters) {
    Group& group = groups_[parameter.decay ? 0 : 1];
    group.weights.push_back(parameter.tensor);
    group.names.push_back(parameter.name);
    group.exp_avg.push_back(at::zeros_like(parameter.tensor));
    group.exp_avg_sq.push_back(at::zeros_like(parameter.tensor));
  }
}

void AdamW::set_lr(double lr) {
  const at::NoGradGuard no_grad;
  lr_.fill_(lr);
}

void AdamW::step(std::optional<double> lr, const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  if (lr) set_lr(*lr);
  steps_.add_(1);
  for (const Group& group : groups_)
    if (!group.weights.empty()) update(group, found_inf);
  if (found_inf.defined()) steps_.sub_(found_inf.squeeze());
}

void AdamW::update(const Group& group, const at::Tensor& found_inf) const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : group.weights) gradients.push_back(weight.grad());
  const std::vector<at::Tensor> steps(group.weights.size(), steps_);
  const std::optional<at::Tensor> skip =
      found_inf.defined() ? std::optional(found_inf) : std::nullopt;
  at::_fused_adamw_(group.weights,
                    gradients,
                    group.exp_avg,
                    group.exp_avg_sq,
                    {},
                    steps,
                    lr_,
                    beta1_,
                    beta2_,
                    group.decay,
                    eps_,
                    false,
                    false,
                    {},
                    skip);
}

NamedTensors AdamW::state() const {
  NamedTensors state;
  for (const Group& group : groups_) {
    for (std::size_t i = 0; i < group.names.size(); ++i) {
      state.emplace_back("optimizer.exp_avg." + group.names[i], group.exp_avg[i]);
      state.emplace_back("optimizer.exp_avg_sq." + group.names[i], group.exp_avg_sq[i]);
    }
  }
  state.emplace_back("optimizer.step", steps_);
  return state;
}

} // namespace assay
