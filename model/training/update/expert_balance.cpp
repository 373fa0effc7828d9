#include "model/training/update/expert_balance.h"

#include <ATen/core/grad_mode.h>

namespace assay {

void ExpertBalance::step() const {
  const at::NoGradGuard no_grad;
  for (const Parameter& bias : biases_)
    if (const at::Tensor load = bias.tensor.grad(); load.defined())
      bias.tensor.sub_(load.sign(), rate_);
  clear();
}

void ExpertBalance::clear() const {
  for (const Parameter& bias : biases_) bias.tensor.mutable_grad().reset();
}

NamedTensors ExpertBalance::state() const {
  NamedTensors state;
  for (const Parameter& bias : biases_)
    state.emplace_back("model." + bias.name, bias.tensor.detach());
  return state;
}

} // namespace assay
