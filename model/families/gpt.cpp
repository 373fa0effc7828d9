#include "model/families/gpt.h"

#include <utility>

#include "model/families/causal_attention_layer.h"
#include "model/families/residual_model.h"

namespace assay {

BuiltModel build_gpt(const TrainConfig& config, at::Generator generator) {
  const auto make_mixer = [&](ParameterFactory& make, const std::string& prefix, char) -> Mixer {
    return {[layer = CausalAttentionLayer(make, prefix + "attention.", config)](
                const at::Tensor& x, const Segments& segments, Attention path) {
      return layer.forward(x, segments, path);
    }};
  };
  return build_residual_model(config, std::move(generator), {"attention_norm", make_mixer});
}

} // namespace assay
