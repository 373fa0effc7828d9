// Muon (K. Jordan et al. 2024, https://kellerjordan.github.io/posts/muon): the momentum of a matrix
// is replaced by a matrix with nearly the same singular vectors and with singular values near 1.
// Per matrix W [rows, columns] with gradient G and learning rate eta:
//   M <- mu M + (1 - mu) G;  U = mu M + (1 - mu) G
//   W <- (1 - eta * weight_decay) W - eta sqrt(max(1, rows / columns)) NewtonSchulz(U)
// with mu = muon_momentum; eta is muon_lr times the schedule's share of lr. AdamW updates all that
// is no matrix of a layer, embedding and head too.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"
#include "model/training/update/optimizer.h"

namespace assay {

// Five steps of the quintic Newton-Schulz iteration X <- a X + (b A + c A A) X, A = X X^T, from
// X = U / |U|_F, on every matrix of [..., rows, columns]: its singular values end between about 0.5
// and 1.5, its singular vectors stay. Products in `type`; returns that type.
at::Tensor newton_schulz(const at::Tensor& matrices, at::ScalarType type);

class Muon {
public:
  // Of those of `parameters` that are is_matrix_of_layer().
  Muon(const std::vector<Parameter>& parameters, const TrainConfig& config);

  // One update from the parameters' gradients. `lr`: AdamW's, on the device; `found_inf` (fp32, 1
  // element) of 1 skips it. No call waits for the device.
  void step(const at::Tensor& lr, const at::Tensor& found_inf) const;

  // "optimizer.momentum.<name>" in the parameters' order; shares storage with the optimizer.
  const NamedTensors& state() const { return state_; }

private:
  // Parameters with matrices of one size; with muon_form = per_matrix one parameter.
  struct Group {
    std::vector<at::Tensor> weights, momentum;
    std::int64_t rows = 0, columns = 0;
  };
  at::Tensor looked_ahead(const Group& group) const;
  void update(const Group& group, const at::Tensor& rate, const at::Tensor& found_inf) const;
  at::Tensor orthogonal(const at::Tensor& matrices) const;

  double momentum_, decay_;
  double lr_factor_;    // of AdamW's learning rate
  at::ScalarType type_; // of products
  bool batched_;
  std::vector<Group> groups_;
  NamedTensors state_;
};

} // namespace assay
