// Balances the experts of a mixture without a loss (arXiv 2408.15664, algorithm 1): after a step
// the bias by which a router chooses grows by balance_rate for every expert that took fewer tokens
// than the mean, and falls by as much for one that took more:
//   b_i <- b_i - balance_rate sign(load_i - mean load)
// The load less its mean is the bias's gradient (BuiltModel::balances), so that it adds up over
// micro-batches and ranks as gradients do.
#pragma once

#include <vector>

#include "model/config/train_config.h"
#include "model/families/family.h"
#include "model/training/update/optimizer.h"

namespace assay {

class ExpertBalance {
public:
  ExpertBalance(std::vector<Parameter> biases, const TrainConfig& config)
      : biases_(std::move(biases)), rate_(config.balance_rate) {}

  // Moves the biases by their gradients, which it clears; does not wait for the device.
  void step() const;
  void clear() const; // the gradients

  // "model.<name>"; shares storage with the biases.
  NamedTensors state() const;

private:
  std::vector<Parameter> biases_;
  double rate_;
};

} // namespace assay
