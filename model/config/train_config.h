// TrainConfig: plain data that fully determines a training process. No LibTorch here: the engine
// plans with it. One table (train_keys.inc) describes every key; the members here, JSON, matrix
// validation, `--set`, documentation and the checkpoint all derive from that table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace assay {

#define KEY(Type, name, initial, summary)
#define CHOICE(Enum, name, initial, summary, ...) enum class Enum { __VA_ARGS__ };
#define HIDDEN_KEY KEY
#define HIDDEN_CHOICE CHOICE
#include "model/config/train_keys.inc"

struct TrainConfig {
#define KEY(Type, name, initial, summary) Type name = initial;
#define CHOICE(Enum, name, initial, summary, ...) Enum name = Enum::initial;
#define HIDDEN_KEY KEY
#define HIDDEN_CHOICE CHOICE
#include "model/config/train_keys.inc"
};

// One documented key.
struct ConfigKey {
  std::string name;
  std::string type; // "string", "int", "float", "bool", "one of a|b|c"
  std::string summary;
  bool hidden = false; // for the engine's tests: accepted, but neither listed nor suggested
};

const std::vector<ConfigKey>& config_keys();

nlohmann::json to_json(const TrainConfig& config);
// Strict: an unknown key or a wrong type is an error that names the key and its nearest neighbour.
Result<TrainConfig> config_from_json(const nlohmann::json& json);
// Sets one key from a JSON value (matrix file) …
Result<bool> set_key(TrainConfig& config, std::string_view key, const nlohmann::json& value);
// … or from text (`--set key=value`).
Result<bool> set_key_text(TrainConfig& config, std::string_view key, std::string_view text);

// Fills every shape key that is 0 from the preset and checks that the whole is consistent (sizes
// divide, ranges hold). Unknown family or preset, or an impossible shape, is an error that names
// the key.
Result<TrainConfig> resolve(TrainConfig config);
// Both in turn.
Result<TrainConfig> resolve_json(const nlohmann::json& json);

// Share of the running median step that the planted busy waits add to a step.
double planted_share(const TrainConfig& config);

std::vector<std::string> family_names();
std::vector<std::string> preset_names(std::string_view family);

// Trainable parameters, and the memory of a trainer, for planning. Needs a resolved config.
struct ModelSize {
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0; // that one token uses: without the experts it does not take
  // Between steps: weights, the optimizer's moments, EMA (fp32) and 16-bit copies.
  std::int64_t state_bytes = 0;
  // In a step: gradients (fp32), with roughly what the backward pass of a micro-batch keeps, then
  // with the products of a batched Muon.
  std::int64_t gradient_bytes = 0, activation_bytes = 0, update_bytes = 0;
  std::int64_t step_bytes() const {
    return gradient_bytes + std::max(activation_bytes, update_bytes);
  }
};
ModelSize model_size(const TrainConfig& config);

} // namespace assay
