// Exponential moving average of the weights, and the three ways to evaluate on it that `ema_swap`
// compares.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "model/config/train_config.h"
#include "model/layers/linear/kept_weights.h"
#include "model/training/update/optimizer.h"

namespace assay {

class Ema {
public:
  // Starts as a copy of the weights. With ema_decay 0 there is no average, and every call does
  // nothing. `copies` (null: none) follow every swap and outlive this.
  Ema(const std::vector<Parameter>& parameters,
      const TrainConfig& config,
      KeptWeights* copies = nullptr);

  void update(); // ema <- lerp(ema, weight, 1 - decay)
  // In the order of the parameters, for an update that moves the average itself; empty: no average.
  const std::vector<at::Tensor>& averages() const { return average_; }
  NamedTensors state() const; // "ema.<name>"

  // While it lives, the parameters are the averaged weights.
  class Scope {
  public:
    explicit Scope(Ema& ema) : ema_(ema) { ema_.swap(true); }
    ~Scope() { ema_.swap(false); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

  private:
    Ema& ema_;
  };

private:
  void swap(bool in); // by the configured method; in: the parameters get the average
  void clone_copy(bool in);
  void swap_pointers();
  void exchange();

  double decay_;
  EmaSwap method_;
  bool per_parameter_; // update()
  KeptWeights* copies_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> weights_, average_;
  std::vector<at::Tensor> saved_; // CloneCopy: the weights while the average is in
};

} // namespace assay
