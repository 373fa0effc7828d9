// Fills a configuration from its preset, and checks what holds in every family. What a family adds:
// model/config/families/.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "model/config/family_config.h"
#include "model/config/optimization.h"

namespace assay {

namespace {

template <class T> void fill(T& value, const T& preset_value) {
  if (value == T{}) value = preset_value;
}

Result<bool> refuse_other_families_keys(const TrainConfig& c) {
  for (const FamilyConfig& other : family_configs().all()) {
    if (other.name == c.family) continue;
    for (const ShapeKey& key : other.keys)
      if (c.*key.value != 0)
        return fail(
            "key '{}' belongs to family {}, not {}: remove it", key.name, other.name, c.family);
  }
  return true;
}

Result<bool> fill_shape(TrainConfig& c, const FamilyConfig& family, const Preset& preset) {
  if (Result<bool> ok = refuse_other_families_keys(c); !ok) return ok;
  if (family.prepare != nullptr) family.prepare(c, preset);
  fill(c.pattern, preset.pattern);
  fill(c.lr, preset.lr);
  std::vector<ShapeKey> keys = common_shape_keys();
  keys.insert(keys.end(), family.keys.begin(), family.keys.end());
  if (keys.size() != preset.values.size())
    internal_error("preset {} of family {} gives {} values for {} keys",
                   preset.name,
                   family.name,
                   preset.values.size(),
                   keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (preset.values[i] == 0 && c.*keys[i].value != 0)
      return fail("key '{}' means nothing in family {}: remove it", keys[i].name, family.name);
    if (preset.values[i] == 0) continue;
    fill(c.*keys[i].value, preset.values[i]);
    if (c.*keys[i].value <= 0)
      return fail("key '{}' must be at least 1, not {}", keys[i].name, c.*keys[i].value);
  }
  return true;
}

Result<bool> check_pattern(const TrainConfig& c, const FamilyConfig& family) {
  std::vector<char> letters;
  for (const LayerKind& kind : family.layers) letters.push_back(kind.letter);
  for (const char letter : c.pattern)
    if (family.layer(letter) == nullptr)
      return fail("key 'pattern' of family {} takes {} only, not '{}'",
                  family.name,
                  fmt::join(letters, " and "),
                  printable(c.pattern));
  return true;
}

constexpr std::int64_t kMaxRanks = 1024, kMaxBucketMib = 16384,
                       kMaxLossChunkMib = std::int64_t{1} << 20;

Result<bool> check(const TrainConfig& c) {
  const std::array<std::pair<const char*, std::int64_t>, 10> positive{
      {{"conv_kernel", c.conv_kernel},
       {"chunk_size", c.chunk_size},
       {"tokenizer_threads", c.tokenizer_threads},
       {"prefetch_batches", c.prefetch_batches},
       {"steps", c.steps},
       {"accumulate", c.accumulate},
       {"eval_interval", c.eval_interval},
       {"eval_batches", c.eval_batches},
       {"ranks", c.ranks},
       {"ddp_bucket_mib", c.ddp_bucket_mib}}};
  for (const auto& [name, value] : positive)
    if (value <= 0) return fail("key '{}' must be at least 1, not {}", name, value);
  if (c.rope_dim % 2 != 0)
    return fail("key 'rope_dim' must be even (rotary pairs), not {}", c.rope_dim);
  if (c.chunk_size > 256) return fail("key 'chunk_size' must be at most 256, not {}", c.chunk_size);
  if (c.threads < 0 || c.warmup_steps < 0)
    return fail("keys 'threads' and 'warmup_steps' must not be negative");
  if (!(c.lr > 0)) return fail("key 'lr' must be above 0, not {}", c.lr);
  if (c.ema_decay < 0 || c.ema_decay >= 1)
    return fail("key 'ema_decay' must be in [0, 1), not {}", c.ema_decay);
  if (c.beta1 < 0 || c.beta1 >= 1 || c.beta2 < 0 || c.beta2 >= 1)
    return fail("keys 'beta1' and 'beta2' must be in [0, 1)");
  if (c.min_lr_ratio < 0 || c.min_lr_ratio > 1)
    return fail("key 'min_lr_ratio' must be in [0, 1], not {}", c.min_lr_ratio);
  if (c.loss_chunk_mib < 0 || c.loss_chunk_mib > kMaxLossChunkMib)
    return fail("key 'loss_chunk_mib' must be in [0, {}], not {}; 0 keeps all logits at once",
                kMaxLossChunkMib,
                c.loss_chunk_mib);
  if (c.weights16 == Weights16::Kept && c.precision == Precision::Fp32)
    return fail(
        "key 'weights16' = kept needs products in 16 bits: set 'precision' to bf16, fp16 or "
        "fp8, or 'weights16' to cast");
  if (c.grad_clip < 0 || c.weight_decay < 0 || !(c.adam_eps > 0))
    return fail(
        "keys 'grad_clip' and 'weight_decay' must not be negative, 'adam_eps' must be above 0");
  if (!(c.init_scale > 0) || c.scale_growth_interval <= 0)
    return fail("keys 'init_scale' and 'scale_growth_interval' must be above 0");
  if (c.ranks > kMaxRanks || c.ddp_bucket_mib > kMaxBucketMib)
    return fail("key 'ranks' must be at most {} and 'ddp_bucket_mib' at most {}, not {} and {}",
                kMaxRanks,
                kMaxBucketMib,
                c.ranks,
                c.ddp_bucket_mib);
  if (c.ddp_static_graph && c.ddp_find_unused)
    return fail("keys 'ddp_static_graph' and 'ddp_find_unused' exclude each other: a static graph "
                "finds unused parameters once, in its first step");
  if (c.planted_spin < 0 || c.planted_spin > 10)
    return fail("key 'planted_spin' must be in [0, 10], not {}", c.planted_spin);
  return true;
}

// Of a configuration with any level but the reference.
Result<bool> check_needs(const Optimization& row, const TrainConfig& c) {
  TrainConfig reference = c;
  row.levels.front().apply(reference);
  const nlohmann::json has = to_json(c), slow = to_json(reference);
  for (const auto& [key, value] : has.items())
    if (value != slow.at(key))
      for (const Need& need : row.needs)
        if (!need.met(c))
          return fail("key '{}' = {} needs {}", key, value.get<std::string>(), need.words);
  return true;
}

} // namespace

std::vector<std::string> family_names() {
  return family_configs().names();
}

std::vector<std::string> preset_names(std::string_view family) {
  std::vector<std::string> names;
  if (const FamilyConfig* found = family_configs().find(family))
    for (const Preset& preset : found->presets) names.push_back(preset.name);
  return names;
}

Result<TrainConfig> resolve(TrainConfig c) {
  const Result<const FamilyConfig*> found = family_configs().lookup(c.family);
  if (!found) return found.error();
  const FamilyConfig& family = **found;
  const auto preset = std::find_if(family.presets.begin(),
                                   family.presets.end(),
                                   [&](const Preset& p) { return p.name == c.preset; });
  if (preset == family.presets.end()) {
    const std::vector<std::string> names = preset_names(c.family);
    return fail("unknown preset '{}'{}; family '{}' has {}",
                printable(c.preset),
                did_you_mean(c.preset, names),
                c.family,
                fmt::join(names, ", "));
  }
  if (Result<bool> ok = fill_shape(c, family, *preset); !ok) return ok.error();
  if (Result<bool> ok = check(c); !ok) return ok.error();
  if (Result<bool> ok = check_pattern(c, family); !ok) return ok.error();
  if (family.check != nullptr)
    if (Result<bool> ok = family.check(c); !ok) return ok.error();
  for (const Optimization& row : optimizations().all())
    if (row.needs_always)
      if (Result<bool> ok = check_needs(row, c); !ok) return ok.error();
  return c;
}

Result<TrainConfig> resolve_json(const nlohmann::json& json) {
  Result<TrainConfig> config = config_from_json(json);
  return config ? resolve(*std::move(config)) : config;
}

} // namespace assay
