#include "model/families/nsa.h"

#include <utility>

#include "model/families/residual_model.h"
#include "model/families/sparse_attention.h"

namespace assay {

BuiltModel build_nsa(const TrainConfig& config, at::Generator generator) {
  const auto make_mixer = [&](ParameterFactory& make, const std::string& prefix, char) -> Mixer {
    return {[layer = SparseAttention(make, prefix + "attention.", config)](
                const at::Tensor& x, const Segments& segments, Attention path) {
      return layer.forward(x, segments, path);
    }};
  };
  return build_residual_model(config, std::move(generator), {"attention_norm", make_mixer});
}

} // namespace assay
