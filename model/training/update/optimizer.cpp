#include "model/training/update/optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "core/span.h"
#include "model/config/shapes/mup.h"
#include "model/training/update/skipped_update.h"

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

at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients, UpdatePass pass) {
  // LibTorch's CPU kernel adds squares in few fp32 accumulators, which loses 1e-3 of the norm of a
  // few million elements; its GPU kernel adds in a tree.
  const std::optional<at::ScalarType> type =
      gradients.front().is_cpu() ? std::optional(at::kDouble) : std::nullopt;
  if (pass != UpdatePass::PerParameter)
    return at::stack(at::_foreach_norm(gradients, 2, type)).norm();
  std::vector<at::Tensor> norms;
  for (const at::Tensor& gradient : gradients)
    norms.push_back(at::linalg_vector_norm(gradient, 2, {}, false, type));
  return at::stack(norms).norm();
}

namespace {

void scale(const std::vector<at::Tensor>& gradients, const at::Tensor& factor, UpdatePass pass) {
  if (pass != UpdatePass::PerParameter) return at::_foreach_mul_(gradients, factor);
  for (const at::Tensor& gradient : gradients) gradient.mul_(factor);
}

double lr_share(const Parameter& parameter, const TrainConfig& config) {
  const bool reads_width = is_matrix_of_layer(parameter) || parameter.name == "head" ||
                           parameter.name.ends_with(".router");
  return reads_width ? 1 / mup_ratio(config) : 1;
}

} // namespace

void clip_by_norm(const std::vector<at::Tensor>& gradients,
                  const at::Tensor& norm,
                  double max_norm,
                  UpdatePass pass,
                  ClipRead read) {
  if (max_norm <= 0) return;
  const auto factor = [&] { return (max_norm / (norm + 1e-6)).clamp_max_(1.0); };
  if (read == ClipRead::Host) {
    const Span span("clip_read/host");
    if (norm.item<double>() > max_norm) scale(gradients, factor(), pass);
  } else {
    const Span span("clip_read/device");
    scale(gradients, factor(), pass);
  }
}

at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients,
                          double max_norm,
                          UpdatePass pass,
                          ClipRead read) {
  at::Tensor norm = gradient_norm(gradients, pass);
  clip_by_norm(gradients, norm, max_norm, pass, read);
  return norm;
}

AdamW::AdamW(const std::vector<Parameter>& parameters, const TrainConfig& config)
    : beta1_(config.beta1), beta2_(config.beta2), eps_(config.adam_eps),
      per_parameter_(config.update_pass == UpdatePass::PerParameter) {
  const auto options = parameters.front().tensor.options().requires_grad(false).dtype(at::kFloat);
  lr_ = at::zeros({}, options);
  steps_ = at::zeros({}, options);
  for (const Parameter& parameter : parameters) {
    Group& group = group_of(parameter, config);
    group.weights.push_back(parameter.tensor);
    group.names.push_back(parameter.name);
    group.order.push_back(static_cast<std::size_t>(&parameter - parameters.data()));
    group.exp_avg.push_back(at::zeros_like(parameter.tensor));
    group.exp_avg_sq.push_back(at::zeros_like(parameter.tensor));
  }
}

// Parameters of one learning rate and decay: those of the first parameter in front.
AdamW::Group& AdamW::group_of(const Parameter& parameter, const TrainConfig& config) {
  const double share = lr_share(parameter, config);
  // Decoupled decay shrinks a weight by lr * decay, which is to be the same at every width.
  const double decay = parameter.decay ? config.weight_decay / share : 0;
  const auto same = [&](const Group& group) {
    return group.decay == decay && group.lr_share == share;
  };
  if (const auto found = std::ranges::find_if(groups_, same); found != groups_.end()) return *found;
  Group& group = groups_.emplace_back();
  group.decay = decay;
  group.lr_share = share;
  return group;
}

at::Tensor AdamW::lr_of(const Group& group) const {
  return group.lr_share == 1 ? lr_ : lr_ * group.lr_share;
}

void AdamW::set_lr(double lr) {
  const at::NoGradGuard no_grad;
  lr_.fill_(lr);
}

void AdamW::step(std::optional<double> lr, const at::Tensor& found_inf) {
  const at::NoGradGuard no_grad;
  if (lr) set_lr(*lr);
  steps_.add_(1);
  for (const Group& group : groups_) {
    if (per_parameter_)
      update_by_operators(group, found_inf);
    else
      update(group, found_inf);
  }
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
                    lr_of(group),
                    beta1_,
                    beta2_,
                    group.decay,
                    eps_,
                    false,
                    false,
                    {},
                    skip);
}

void AdamW::update_by_operators(const Group& group, const at::Tensor& found_inf) const {
  const at::ScalarType type = group.weights.front().scalar_type();
  const at::Tensor steps = steps_.to(at::kDouble), lr = lr_of(group);
  const at::Tensor rate = (lr / (1 - at::pow(beta1_, steps))).to(type),
                   root = (1 - at::pow(beta2_, steps)).rsqrt().to(type),
                   keep = (1 - lr.to(at::kDouble) * group.decay).to(type);
  for (std::size_t i = 0; i < group.weights.size(); ++i) {
    const std::vector<at::Tensor> changed{group.weights[i], group.exp_avg[i], group.exp_avg_sq[i]};
    const SkippedUpdate skipped(changed, found_inf);
    const at::Tensor &weight = changed[0], &first = changed[1], &second = changed[2];
    const at::Tensor& gradient = weight.grad();
    if (group.decay > 0) weight.mul_(keep);
    first.lerp_(gradient, 1 - beta1_);
    second.mul_(beta2_).addcmul_(gradient, gradient, 1 - beta2_);
    const at::Tensor size = second.sqrt().mul_(root).add_(eps_);
    weight.sub_(first.div(size).mul_(rate));
    skipped.put_back();
  }
}

std::vector<AdamW::Moments> AdamW::moments() const {
  std::vector<Moments> all;
  for (const Group& group : groups_) all.resize(all.size() + group.order.size());
  for (const Group& group : groups_)
    for (std::size_t i = 0; i < group.order.size(); ++i)
      all[group.order[i]] = {group.exp_avg[i], group.exp_avg_sq[i], group.decay};
  return all;
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
