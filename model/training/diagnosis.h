// Health of a model's parts: gradients of the components of a layer, spread of what modules add to
// the residual stream, and how evenly recurrent states use their channels. Definitions:
// docs/data.md, "Diagnosis".
#pragma once

#include <string>
#include <vector>

#include "model/training/trainer.h"

namespace assay {

struct ComponentGradient {
  std::string layer, component; // "layers.3", "rwkv"
  double norm = 0;              // of the gradients of its parameters together
};

struct ModuleSpread {
  std::string module;     // "layers.3.rwkv"
  double variance = 0;    // of all elements
  double of_stream = 0;   // share of the variance of the stream that the layer reads
  bool collapsed = false; // of_stream below 1e-6
};

struct StateEntropy {
  std::string module; // "layers.3.rwkv"
  double nats = 0;    // mean over heads; 0: one channel holds all, most: all hold the same
  double most = 0;    // ln of the number of channels
};

struct Diagnosis {
  std::vector<ComponentGradient> gradients;
  std::vector<ModuleSpread> spreads;
  std::vector<StateEntropy> states; // of recurrent layers; empty where there are none
};

// Of prepared batches, on the current weights. Gradients are of the mean loss of all batches, the
// spread is the mean over batches, states are those behind the first document of each batch, mean.
Diagnosis diagnose(Trainer& trainer, const std::vector<Batch>& batches);

// -sum p ln p over the channels K of a state [H, K, V], p the share of a channel in the sum of
// squares; mean over heads. A state of zeros has entropy 0.
double state_entropy(const at::Tensor& state);

// "rwkv" of "layers.3.rwkv.out_proj", "feed_forward" of "layers.3.ffn_in", "norms" of
// "layers.3.mixer_norm"; "" outside of layers.
std::string component_of(const std::string& parameter);

} // namespace assay
