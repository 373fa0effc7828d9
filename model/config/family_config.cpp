#include "model/config/family_config.h"

#include <algorithm>

#include "core/result.h"

namespace assay {

const std::vector<ShapeKey>& common_shape_keys() {
  static const std::vector<ShapeKey> keys{{"d_model", &TrainConfig::d_model},
                                          {"heads", &TrainConfig::heads},
                                          {"head_dim", &TrainConfig::head_dim},
                                          {"rope_dim", &TrainConfig::rope_dim},
                                          {"ffn_dim", &TrainConfig::ffn_dim},
                                          {"vocab_size", &TrainConfig::vocab_size},
                                          {"seq_len", &TrainConfig::seq_len, false},
                                          {"batch_rows", &TrainConfig::batch_rows, false}};
  return keys;
}

const Registry<FamilyConfig>& family_configs() {
  static const Registry<FamilyConfig> registry(
      "model family",
      {deltanet_mla_config(), nsa_config(), gpt_config(), rwmba_config(), hydra_config()});
  return registry;
}

const LayerKind* FamilyConfig::layer(char letter) const {
  const auto found = std::find_if(
      layers.begin(), layers.end(), [&](const LayerKind& kind) { return kind.letter == letter; });
  return found == layers.end() ? nullptr : &*found;
}

const FamilyConfig& family_of(const TrainConfig& config) {
  return *value_or_throw(family_configs().lookup(config.family));
}

const LayerKind& layer_kind(const TrainConfig& config, char letter) {
  const LayerKind* kind = family_of(config).layer(letter);
  if (kind == nullptr) internal_error("family {} has no layer '{}'", config.family, letter);
  return *kind;
}

double feed_forward_passes(const TrainConfig& config, std::size_t layer) {
  const auto passes = family_of(config).feed_forward_passes;
  return passes == nullptr ? 1 : passes(config, layer);
}

Layouts layouts_of(const TrainConfig& config) {
  Layouts all;
  for (const char letter : config.pattern) {
    const Layouts own = layer_kind(config, letter).layouts(config);
    all.chunks |= own.chunks;
    all.delta_rule |= own.delta_rule;
    all.rotary |= own.rotary;
    all.positions |= own.positions;
    all.causal_mask |= own.causal_mask;
    if (own.blocks) all.blocks = own.blocks;
  }
  return all;
}

} // namespace assay
