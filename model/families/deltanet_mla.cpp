#include "model/families/deltanet_mla.h"

#include <utility>

#include "model/families/gated_deltanet.h"
#include "model/families/latent_attention.h"
#include "model/families/residual_model.h"

namespace assay {

BuiltModel build_deltanet_mla(const TrainConfig& config, at::Generator generator) {
  const auto make_mixer =
      [&](ParameterFactory& make, const std::string& prefix, char kind) -> Mixer {
    if (kind == 'G') {
      const GatedDeltaNet layer(make, prefix + "delta.", config);
      return {[layer](const at::Tensor& x, const Segments& segments, Attention) {
                return layer.forward(x, segments);
              },
              layer.reader()};
    }
    const LatentAttention layer(make, prefix + "attention.", config);
    return {[layer](const at::Tensor& x, const Segments& segments, Attention path) {
              return layer.forward(x, segments, path);
            },
            layer.reader()};
  };
  return build_residual_model(config, std::move(generator), {"mixer_norm", make_mixer});
}

} // namespace assay
