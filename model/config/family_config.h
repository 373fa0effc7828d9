// FamilyConfig: all that planning needs to know of a model family, without LibTorch. One file a
// family in model/config/families/; its layers themselves are in model/families/.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/registry.h"
#include "model/config/cost/step_cost.h"
#include "model/config/model_form.h"
#include "model/config/shapes/nsa_shape.h"
#include "model/config/train_config.h"

namespace assay {

// A key that a preset fills where it is 0. Families may share one that not all have.
struct ShapeKey {
  const char* name;
  std::int64_t TrainConfig::*value;
  bool in_tensors = true; // a parameter's shape follows it
};

// Keys of every family, in the order in which presets give them.
const std::vector<ShapeKey>& common_shape_keys();

struct Preset {
  std::string name;
  std::string pattern; // one letter a layer
  double lr = 0;
  // Of common_shape_keys(), then of the family's own keys. 0: the family has no use for the key.
  std::vector<std::int64_t> values;
};

struct LayerSize {
  std::int64_t matrix = 0;       // parameters that take part in matrix products
  std::int64_t vector = 0;       // norms, convolutions, decays
  std::int64_t token_floats = 0; // activations kept for backward, a token
};

// Width of the heads that attention kernels see, and the keys that give it.
struct HeadWidth {
  std::int64_t width = 0;
  std::string words; // "head_dim 64 + rope_dim 32 = 96"
};

// What a layer reads of a batch beside its tokens (model/layout/). It must not depend on a key that
// an optimization switches: the levels of a row share their batches.
struct Layouts {
  bool chunks = false;      // of linear recurrences, and taps of the short convolution
  bool delta_rule = false;  // the chunks are those of the gated delta rule
  bool rotary = false;      // rotary angles
  bool positions = false;   // places of tokens in their segments
  bool causal_mask = false; // of rows, for attention by a dense mask
  std::optional<NsaShape> blocks = std::nullopt; // of native sparse attention
};

struct LayerKind {
  char letter; // in `pattern`
  LayerSize (*size)(const TrainConfig&);
  StepShape::Layer (*cost)(const TrainConfig&, std::int64_t longest_segment);
  Layouts (*layouts)(const TrainConfig&);
  HeadWidth (*head_width)(const TrainConfig&) = nullptr; // null: no attention kernel
  bool carries = false; // it can go on from the tokens before a piece (model/layout/carry.h)
};

struct FamilyConfig {
  std::string name;
  std::vector<Preset> presets;
  std::vector<ShapeKey> keys; // beside the common ones
  std::vector<LayerKind> layers;
  ModelForm form = {};
  // Fills what follows from a key that was given, before the preset fills the rest; null: nothing.
  void (*prepare)(TrainConfig&, const Preset&) = nullptr;
  // What must hold between the keys of a filled configuration; null: nothing.
  Result<bool> (*check)(const TrainConfig&) = nullptr;
  // How often a token passes through the feed-forward of layer `index`, mean; null: once.
  double (*feed_forward_passes)(const TrainConfig&, std::size_t index) = nullptr;
  // Parameters that choose tokens, of all layers; null: none.
  std::int64_t (*router_parameters)(const TrainConfig&) = nullptr;

  const LayerKind* layer(char letter) const;
};

const Registry<FamilyConfig>& family_configs();

// Rows of family_configs(), model/config/families/.
FamilyConfig deltanet_mla_config();
FamilyConfig nsa_config();
FamilyConfig gpt_config();
FamilyConfig rwmba_config();
FamilyConfig hydra_config();

// The first half of resolve(): a whole shape, whose sizes are not checked yet.
Result<TrainConfig> fill_from_preset(TrainConfig config);

// Of a resolved configuration.
const FamilyConfig& family_of(const TrainConfig& config);
const LayerKind& layer_kind(const TrainConfig& config, char letter);
Layouts layouts_of(const TrainConfig& config); // of all its layers
// Whether a layer keeps its input alone for the backward pass (recompute_every).
inline bool is_recomputed(const TrainConfig& config, std::size_t layer) {
  return config.recompute_every > 0 &&
         layer % static_cast<std::size_t>(config.recompute_every) == 0;
}
double feed_forward_passes(const TrainConfig& config, std::size_t layer); // 1 in most families

} // namespace assay
