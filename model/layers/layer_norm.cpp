#include "model/layers/layer_norm.h"

#include "model/layers/autocast.h"

namespace assay {

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return at::layer_norm(x.to(wide_type(x)), {x.size(-1)}, weight, bias, kLayerNormEps);
}

} // namespace assay
