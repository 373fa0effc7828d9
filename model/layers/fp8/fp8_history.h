// Delayed scaling of FP8 linears (`fp8_scaling = delayed`; Transformer Engine's DelayedScaling with
// its defaults, margin 0 and the largest of 1024 steps): the scale of an input or a gradient comes
// from the largest values that it had in earlier steps, so a kernel that writes the tensor can
// write its FP8 form. Until a step has been seen, scales come from the tensors themselves.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace assay {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Of the tensors that the linear with a given weight reads.
enum class Fp8Of { Input, Gradient };

class Fp8Histories {
public:
  static constexpr std::int64_t kLength = 1024; // steps

  // Room for the input and the gradient of every matrix of a model's `parameters`, on their
  // device.
  explicit Fp8Histories(const std::vector<at::Tensor>& parameters);

  // [8] of fp32, as Fp8Slot of kernels/fp8/problem.h.
  const at::Tensor& slot(const at::Tensor& weight, Fp8Of of) const;
  bool seen_a_step() const { return seen_a_step_; }

  // At the end of a step: what it has shown enters the history. On a GPU one launch.
  void roll();
  // What has been shown since the last roll() enters nothing.
  void discard();

  // "fp8.slots" and "fp8.history", at addresses that stay; call loaded() after writing them.
  NamedTensors state() const;
  void loaded();

private:
  at::Tensor slots_, values_;                                     // [N, 8], [N, kLength]
  std::unordered_map<const at::TensorImpl*, std::size_t> places_; // of a weight's input
  std::vector<at::Tensor> views_;                                 // of slots_, a row each
  bool seen_a_step_ = false;
};

} // namespace assay
