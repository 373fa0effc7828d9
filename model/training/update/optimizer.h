// AdamW (arXiv 1711.05101, algorithm 2) over LibTorch's multi-tensor kernels or, with
// update_pass = per_parameter, in operators; with everything on the device: learning rate, step
// counter, gradient clipping. No call waits for the device.
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

// The global norm of the gradients, 0-dim on the device. `pass`: one operator per gradient, or per
// list.
at::Tensor gradient_norm(const std::vector<at::Tensor>& gradients, UpdatePass pass);

// Scales gradients of this global norm so that it is at most `max_norm` (0: leaves them). `read`:
// by the host, which waits for the norm and leaves smaller gradients alone, or not.
void clip_by_norm(const std::vector<at::Tensor>& gradients,
                  const at::Tensor& norm,
                  double max_norm,
                  UpdatePass pass,
                  ClipRead read);

// Both: scales the gradients so that their global norm is at most `max_norm` (0: leaves them) and
// returns the norm before, a 0-dim tensor on the device.
at::Tensor clip_gradients(const std::vector<at::Tensor>& gradients,
                          double max_norm,
                          UpdatePass pass = UpdatePass::Foreach,
                          ClipRead read = ClipRead::Device);

class AdamW {
public:
  AdamW(const std::vector<Parameter>& parameters, const TrainConfig& config);

  void set_lr(double lr);
  // One update from the parameters' gradients, which must all be defined; `found_inf` (fp32, 1
  // element) of 1 skips it. No `lr`: that of the last set_lr(), whose value the host need not have.
  void step(std::optional<double> lr, const at::Tensor& found_inf = {});

  struct Moments {
    at::Tensor first, second; // running means of the gradient and of its square
    double decay = 0;
  };
  // What an update that takes the place of step() reads and writes: of each parameter in their
  // order, the learning rate, and the number of updates made. Not with mup_width, where parameters
  // have learning rates of their own.
  std::vector<Moments> moments() const;
  const at::Tensor& lr() const { return lr_; }
  const at::Tensor& steps() const { return steps_; }

  // "optimizer.exp_avg.<name>", "optimizer.exp_avg_sq.<name>", "optimizer.step"; share storage with
  // the optimizer.
  NamedTensors state() const;

private:
  struct Group {
    std::vector<at::Tensor> weights, exp_avg, exp_avg_sq;
    std::vector<std::string> names;
    std::vector<std::size_t> order; // of the parameters
    double decay = 0;
    double lr_share = 1; // of lr_
  };
  Group& group_of(const Parameter& parameter, const TrainConfig& config);
  at::Tensor lr_of(const Group& group) const;
  void update(const Group& group, const at::Tensor& found_inf) const;
  void update_by_operators(const Group& group, const at::Tensor& found_inf) const;

  double beta1_, beta2_, eps_;
  bool per_parameter_;
  at::Tensor lr_;    // fp32, 0-dim, on the device
  at::Tensor steps_; // fp32, 0-dim: updates made; shared by all parameters
  std::vector<Group> groups_;
};

} // namespace assay
