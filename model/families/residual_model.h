// The skeleton that the families share: embedding, pre-norm residual blocks of a token mixer and a
// feed-forward, final norm, untied head. A family chooses what mixes tokens and which feed-forward.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

// [T, d_model] -> [T, d_model]; owns its layer.
using Mixer = std::function<at::Tensor(const at::Tensor& x, const Segments& segments, Attention)>;

enum class FeedForward {
  Silu,  // W_out silu(W_in x), W_in [ffn_dim, d_model]
  SwiGlu // W_out (silu(W_gate x) * W_value x), W_in [2*ffn_dim, d_model]: gate, then value
};

struct ResidualForm {
  std::string mixer_norm; // parameter name of the norm before the mixer, within a layer
  FeedForward feed_forward;
  // `kind`: the layer's letter of config.pattern; `prefix`: "layers.3."
  std::function<Mixer(ParameterFactory& make, const std::string& prefix, char kind)> make_mixer;
};

BuiltModel
build_residual_model(const TrainConfig& config, at::Generator generator, const ResidualForm& form);

} // namespace assay
