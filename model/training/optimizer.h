// AdamW (arXiv 1711.05101, algorithm 2) over fused kernels, with everything on the device: learning
// rate, step counter, gradient clipping. No call waits for the device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Linear warm-up from lr/warmup_steps, then cosine to lr*min_lr_ratio at `steps`, constant after.
// `step` counts from 0.
double learning_rate(const TrainConfig& config, std::int64_t step);

// Scales the gradients so that their global norm is at most `max_norm` (0: leaves them) and returns
// the norm before, a 0-dim tensor on the device.
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients, double max_norm);

class AdamW {
public:
  AdamW(const std::vector<Parameter>& parameters, const TrainConfig& config);

  void set_lr(double lr);
  // One update from the parameters' gradients, which must all be defined; `found_inf` (fp32, 1
  // element) of 1 skips it. No `lr`: that of the last set_lr(), whose value the host need not have.
  void step(std::optional<double> lr, const at::Tensor& found_inf = {});

  // "optimizer.exp_avg.<name>", "optimizer.exp_avg_sq.<name>", "optimizer.step"; share storage with
  // the optimizer.
  NamedTensors state() const;

private:
  struct Group {
    std::vector<at::Tensor> weights, exp_avg, exp_avg_sq;
    std::vector<std::string> names;
    double decay = 0;
  };
  void update(const Group& group, const at::Tensor& found_inf) const;

  double beta1_, beta2_, eps_;
  at::Tensor lr_;    // fp32, 0-dim, on the device
  at::Tensor steps_; // fp32, 0-dim: updates made; shared by all parameters
  std::vector<Group> groups_;
};

} // namespace assay
