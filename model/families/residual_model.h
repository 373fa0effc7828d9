// The skeleton that the families share: embedding, pre-norm residual blocks of a token mixer and a
// feed-forward, final norm, head. A family chooses what mixes tokens; which norms, feed-forward and
// head the skeleton has is in its ModelForm (model/config/model_form.h).
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>

#include "model/config/train_config.h"
#include "model/families/family.h"

namespace assay {

// [T, d_model] -> [T, d_model]; owns its layer.
struct Mixer {
  std::function<at::Tensor(const at::Tensor& x, const Segments& segments, Attention)> run;
  at::Tensor reader = {}; // weight of a linear that reads x, which apply_linear() alone reads;
                          // undefined: others do
};

struct ResidualLayers {
  std::string mixer_norm; // parameter name of the norm before the mixer, within a layer
  // `kind`: the layer's letter of config.pattern; `prefix`: "layers.3."
  std::function<Mixer(ParameterFactory& make, const std::string& prefix, char kind)> make_mixer;
};

BuiltModel build_residual_model(const TrainConfig& config,
                                at::Generator generator,
                                const ResidualLayers& layers);

} // namespace assay
