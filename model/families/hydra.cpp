#include "model/families/hydra.h"

#include <utility>

#include "model/families/compressed_attention.h"
#include "model/families/residual_model.h"

namespace assay {

BuiltModel build_hydra(const TrainConfig& config, at::Generator generator) {
  const auto make_mixer = [&](ParameterFactory& make, const std::string& prefix, char) -> Mixer {
    return {[layer = CompressedAttention(make, prefix, config)](
                const at::Tensor& x, const Segments& segments, Attention path) {
      return layer.forward(x, segments, path);
    }};
  };
  return build_residual_model(config, std::move(generator), {"attention_norm", make_mixer});
}

} // namespace assay
