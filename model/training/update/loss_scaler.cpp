#include "model/training/update/loss_scaler.h"

#include <ATen/core/grad_mode.h>

#include "core/span.h"

namespace assay {

LossScaler::LossScaler(const TrainConfig& config, at::Device device)
    : dynamic_(config.grad_scaler == GradScaler::Dynamic),
      growth_interval_(config.scale_growth_interval) {
  if (!dynamic_) return;
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  scale_ = at::full({1}, config.init_scale, options);
  growth_tracker_ = at::zeros({1}, options.dtype(at::kInt));
  found_inf_ = at::zeros({1}, options);
  skipped_ = at::zeros({1}, options);
}

at::Tensor LossScaler::scale(const at::Tensor& loss) const {
  if (dynamic_) {
    const Span span("scaler/dynamic");
    return loss * device_scale();
  }
  const Span span("scaler/off");
  return loss;
}

at::Tensor LossScaler::device_scale() const {
  return dynamic_ ? scale_.squeeze() : at::Tensor();
}

at::Tensor LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  if (!dynamic_) return {};
  const Span span("scaler/unscale");
  const at::NoGradGuard no_grad;
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
  return found_inf_;
}

void LossScaler::update() {
  if (!dynamic_) return;
  const at::NoGradGuard no_grad;
  skipped_.add_(found_inf_);
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, 2.0, 0.5, growth_interval_);
}

std::int64_t LossScaler::skipped_steps() const {
  return dynamic_ ? static_cast<std::int64_t>(skipped_.item<float>()) : 0;
}

double LossScaler::current_scale() const {
  return dynamic_ ? static_cast<double>(scale_.item<float>()) : 1.0;
}

NamedTensors LossScaler::state() const {
  if (!dynamic_) return {};
  return {{"scaler.scale", scale_},
          {"scaler.growth_tracker", growth_tracker_},
          {"scaler.skipped", skipped_}};
}

} // namespace assay
