#include "model/families/rwmba.h"

#include <utility>

#include "model/families/mamba2_layer.h"
#include "model/families/residual_model.h"
#include "model/families/rwkv6_layer.h"
#include "model/layers/probe.h"
#include "model/layers/rms_norm.h"

namespace assay {

namespace {

// y = rwkv_gain * norm(RWKV-6(x)) + mamba_gain * norm(Mamba-2(x)), gains of a channel.
class ParallelLayer {
public:
  ParallelLayer(ParameterFactory& make, const std::string& prefix, const TrainConfig& config)
      : rwkv_(make, prefix + "rwkv.", config), mamba_(make, prefix + "mamba.", config),
        rwkv_norm_(make.ones(prefix + "rwkv_norm", {config.d_model})),
        mamba_norm_(make.ones(prefix + "mamba_norm", {config.d_model})),
        rwkv_gain_(make.add(prefix + "rwkv_gain", at::full({config.d_model}, 0.7), false)),
        mamba_gain_(make.add(prefix + "mamba_gain", at::full({config.d_model}, 0.3), false)) {}

  at::Tensor forward(const at::Tensor& x, const Segments& segments) const {
    const at::Tensor rwkv = rwkv_gain_ * rms_norm(rwkv_.forward(x, segments), rwkv_norm_),
                     mamba = mamba_gain_ * rms_norm(mamba_.forward(x, segments), mamba_norm_);
    if (Probe* const probe = active_probe()) {
      probe->activation("rwkv", rwkv);
      probe->activation("mamba", mamba);
    }
    return rwkv + mamba;
  }

private:
  Rwkv6Layer rwkv_;
  Mamba2Layer mamba_;
  at::Tensor rwkv_norm_, mamba_norm_, rwkv_gain_, mamba_gain_; // [d_model]
};

template <class Layer>
Mixer mixer_of(ParameterFactory& make, const std::string& prefix, const TrainConfig& config) {
  return {[layer = Layer(make, prefix, config)](const at::Tensor& x,
                                                const Segments& segments,
                                                Attention) { return layer.forward(x, segments); }};
}

} // namespace

BuiltModel build_rwmba(const TrainConfig& config, at::Generator generator) {
  const auto make_mixer =
      [&](ParameterFactory& make, const std::string& prefix, char kind) -> Mixer {
    if (kind == 'R') return mixer_of<Rwkv6Layer>(make, prefix + "rwkv.", config);
    if (kind == 'S') return mixer_of<Mamba2Layer>(make, prefix + "mamba.", config);
    return mixer_of<ParallelLayer>(make, prefix, config);
  };
  return build_residual_model(config, std::move(generator), {"mixer_norm", make_mixer});
}

} // namespace assay
