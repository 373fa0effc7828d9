#include "model/families/family.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <utility>

#include "model/families/deltanet_mla.h"
#include "model/families/gpt.h"
#include "model/families/hydra.h"
#include "model/families/nsa.h"
#include "model/families/rwmba.h"
#include "model/layout/parallel.h"

namespace assay {

bool is_matrix_of_layer(const Parameter& parameter) {
  return parameter.decay && parameter.tensor.dim() >= 2 && parameter.name.starts_with("layers.");
}

namespace {

// Numbers that one generator draws one after the other.
constexpr std::int64_t kDrawnAtOnce = 1 << 20;

// A large matrix is drawn in blocks on all cores, each from a generator of its own, so that the
// values are the same on any number of cores.
at::Tensor drawn_normal(at::IntArrayRef shape, double std_dev, at::Generator& generator) {
  at::Tensor values = at::empty(shape);
  if (values.numel() <= kDrawnAtOnce) return values.normal_(0.0, std_dev, generator);
  const at::Tensor flat = values.view(-1);
  const std::uint64_t seed = at::check_generator<at::CPUGeneratorImpl>(generator)->random64();
  const std::int64_t blocks = (flat.numel() + kDrawnAtOnce - 1) / kDrawnAtOnce;
  in_parallel(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t from = block * kDrawnAtOnce;
      flat.slice(0, from, std::min(flat.numel(), from + kDrawnAtOnce))
          .normal_(
              0.0, std_dev, at::make_generator<at::CPUGeneratorImpl>(seed + std::uint64_t(block)));
    }
  });
  return values;
}

} // namespace

at::Tensor
ParameterFactory::normal(const std::string& name, at::IntArrayRef shape, double std_dev) {
  return add(name, drawn_normal(shape, std_dev, generator_), true);
}

at::Tensor
ParameterFactory::uniform(const std::string& name, at::IntArrayRef shape, double low, double high) {
  return add(name, at::empty(shape).uniform_(low, high, generator_), false);
}

at::Tensor ParameterFactory::ones(const std::string& name, at::IntArrayRef shape) {
  return add(name, at::ones(shape), false);
}

at::Tensor ParameterFactory::zeros(const std::string& name, at::IntArrayRef shape) {
  return add(name, at::zeros(shape), false);
}

at::Tensor ParameterFactory::balance(const std::string& name, std::int64_t experts) {
  const at::Tensor bias =
      at::zeros({experts}, at::TensorOptions().device(device_)).requires_grad_();
  balances_.push_back({name, bias, false});
  return bias;
}

at::Tensor ParameterFactory::add(const std::string& name, const at::Tensor& values, bool decay) {
  const at::Tensor tensor = values.to(device_).contiguous().requires_grad_();
  parameters_.push_back({name, tensor, decay});
  return tensor;
}

const Registry<ModelFamily>& model_families() {
  static const Registry<ModelFamily> registry(
      "model family",
      {{"deltanet_mla",
        "gated DeltaNet and multi-head latent attention layers, in a pattern",
        build_deltanet_mla},
       {"nsa",
        "native sparse attention layers (compressed, selected, window), or their dense twin",
        build_nsa},
       {"gpt",
        "causal attention layers in the form of GPT-2: layer norms, biases, GELU, learned "
        "positions, "
        "tied head",
        build_gpt},
       {"rwmba",
        "RWKV-6 and Mamba-2 layers side by side, with gated fusion, or one of them",
        build_rwmba},
       {"hydra",
        "compressed convolutional attention, and feed-forwards that are applied several times to "
        "some of the tokens",
        build_hydra}});
  return registry;
}

} // namespace assay
