// Fills a configuration from its preset, and checks what holds in every family. What a family adds:
// model/config/families/.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/text.h"
#include "model/config/family_config.h"
#include "model/config/key_bounds.h"
#include "model/config/key_choices.h"
#include "model/config/optimization.h"
#include "model/config/shapes/mup.h"

namespace assay {

namespace {

template <class T> void fill(T& value, const T& preset_value) {
  if (value == T{}) value = preset_value;
}

bool has_key(const FamilyConfig& family, const ShapeKey& key) {
  return std::ranges::any_of(family.keys,
                             [&](const ShapeKey& own) { return own.value == key.value; });
}

Result<bool> refuse_other_families_keys(const TrainConfig& c, const FamilyConfig& family) {
  for (const FamilyConfig& other : family_configs().all())
    for (const ShapeKey& key : other.keys)
      if (!has_key(family, key) && c.*key.value != 0)
        return fail(
            "key '{}' belongs to family {}, not {}: remove it", key.name, other.name, c.family);
  return true;
}

Result<bool> fill_shape(TrainConfig& c, const FamilyConfig& family, const Preset& preset) {
  if (Result<bool> ok = refuse_other_families_keys(c, family); !ok) return ok;
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
      return fail("key '{}' means nothing in preset {} of family {}: remove it",
                  keys[i].name,
                  preset.name,
                  family.name);
    if (preset.values[i] == 0) continue;
    fill(c.*keys[i].value, preset.values[i]);
    if (c.*keys[i].value <= 0)
      return fail("key '{}' must be at least 1, not {}", keys[i].name, c.*keys[i].value);
  }
  return true;
}

Result<bool> check_pattern(const TrainConfig& c, const FamilyConfig& family) {
  constexpr std::size_t kMostLayers = 1024;
  if (c.pattern.size() > kMostLayers)
    return fail("key 'pattern' takes at most {} letters, one per layer, not {}",
                kMostLayers,
                c.pattern.size());
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

// A number with fractions, and what it must be.
struct Fraction {
  const char* key;
  double value;
  double least = 0;
  bool above_least = false; // `least` itself is refused
  double most = std::numeric_limits<double>::infinity();
  bool below_most = false; // `most` itself is refused
};

Result<bool> check_fraction(const Fraction& f) {
  const bool enough = f.above_least ? f.value > f.least : f.value >= f.least;
  const bool little = f.below_most ? f.value < f.most : f.value <= f.most;
  if (enough && little) return true;
  const std::string highest =
      std::isinf(f.most) ? ""
                         : fmt::format(" and {} {}", f.below_most ? "below" : "at most", f.most);
  return fail("key '{}' must be {} {}{}, not {}",
              f.key,
              f.above_least ? "above" : "at least",
              f.least,
              highest,
              f.value);
}

Result<bool> check_numbers(const TrainConfig& c) {
  const nlohmann::json values = to_json(c);
  for (const KeyBounds& bounds : integer_bounds())
    if (Result<bool> ok = check_bounds(bounds, values.at(bounds.name).get<std::int64_t>()); !ok)
      return ok;
  const std::array<Fraction, 17> fractions{
      {{"lr", c.lr, 0, true},
       {"ema_decay", c.ema_decay, 0, false, 1, true},
       {"muon_lr", c.muon_lr, 0, true},
       {"muon_momentum", c.muon_momentum, 0, false, 1, true},
       {"balance_rate", c.balance_rate, 0, false, 1},
       {"beta1", c.beta1, 0, false, 1, true},
       {"beta2", c.beta2, 0, false, 1, true},
       {"min_lr_ratio", c.min_lr_ratio, 0, false, 1},
       {"grad_clip", c.grad_clip},
       {"weight_decay", c.weight_decay},
       {"adam_eps", c.adam_eps, 0, true},
       {"init_scale", c.init_scale, 0, true},
       {"planted_spin", c.planted_spin, 0, false, 10},
       {"planted_spin_more", c.planted_spin_more, 0, false, 10},
       {"planted_spin_less", c.planted_spin_less, 0, false, 10},
       {"planted_document_ms", c.planted_document_ms, 0, false, 1000},
       {"planted_mib", c.planted_mib, 0, false, 65'536}}};
  for (const Fraction& fraction : fractions)
    if (Result<bool> ok = check_fraction(fraction); !ok) return ok;
  return true;
}

Result<bool> check(const TrainConfig& c) {
  if (Result<bool> ok = check_numbers(c); !ok) return ok;
  if (c.rope_dim % 2 != 0)
    return fail("key 'rope_dim' must be even (rotary pairs), not {}", c.rope_dim);
  if (c.weights16 == Weights16::Kept && c.precision == Precision::Fp32)
    return fail(
        "key 'weights16' = kept needs products in 16 bits: set 'precision' to bf16, fp16 or "
        "fp8, or 'weights16' to cast");
  if (c.tf32 && (c.device != Device::Cuda || c.precision != Precision::Fp32))
    return fail(
        "key 'tf32' = true needs 'device' = cuda and 'precision' = fp32: other products are "
        "on a CPU or in 16 bits");
  if (c.packing != Packing::Packed && (c.accumulate > 1 || c.ranks > 1))
    return fail("key 'packing' = padded or best_fit needs 'accumulate' = 1 and 'ranks' = 1: "
                "batches with unequal numbers of tokens would have equal weight");
  if (c.phase_batches > 0 && (c.data_source == TokenSource::Synthetic || c.seq_len % 4 != 0))
    return fail("key 'phase_batches' needs 'data_source' = real and a 'seq_len' that 4 divides: "
                "synthetic batches keep their shape, and the rows of a phase have a quarter, half "
                "and all of seq_len");
  if (c.fp8_scaling == Fp8Scaling::Delayed && (c.precision != Precision::Fp8 || c.ranks > 1))
    return fail("key 'fp8_scaling' = delayed needs 'precision' = fp8 and 'ranks' = 1: other "
                "precisions have no scales, and ranks would not share theirs");
  if (c.sharding != Sharding::None && c.ranks < 2)
    return fail("key 'sharding' needs 'ranks' of 2 or more: one process holds everything");
  if (c.ddp_static_graph && c.ddp_find_unused)
    return fail("keys 'ddp_static_graph' and 'ddp_find_unused' exclude each other: a static graph "
                "finds unused parameters once, in its first step");
  return true;
}

// "key 'mla_inputs' = fused": what the row's levels set.
std::string setting_text(const TrainConfig& c, const Optimization& row) {
  const nlohmann::json values = to_json(c);
  std::vector<std::string> settings;
  for (const std::string& key : switched_keys(row)) {
    const nlohmann::json& value = values.at(key);
    settings.push_back(fmt::format(
        "key '{}' = {}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return fmt::format("{}", fmt::join(settings, ", "));
}

Result<bool> check_needs(const Optimization& row, const TrainConfig& c) {
  const bool switched = !has_level(c, row.levels.front());
  for (const Need& need : row.needs)
    if (need.always && (switched || !need.level.empty()) && !meets(c, row, need))
      return fail("{} needs {}", setting_text(c, row), need.words.text());
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

std::vector<std::string> families_with_preset(std::string_view preset) {
  std::vector<std::string> families;
  for (const std::string& family : family_names()) {
    const std::vector<std::string> names = preset_names(family);
    if (std::find(names.begin(), names.end(), preset) != names.end()) families.push_back(family);
  }
  return families;
}

std::vector<std::string> preset_choices() {
  std::set<std::string> names;
  for (const std::string& family : family_names())
    for (const std::string& name : preset_names(family)) names.insert(name);
  return {names.begin(), names.end()};
}

Result<TrainConfig> fill_from_preset(TrainConfig c) {
  const Result<const FamilyConfig*> found = family_configs().lookup(c.family);
  if (!found) return found.error();
  const FamilyConfig& family = **found;
  const auto preset = std::find_if(family.presets.begin(),
                                   family.presets.end(),
                                   [&](const Preset& p) { return p.name == c.preset; });
  if (preset == family.presets.end()) {
    const std::vector<std::string> names = preset_names(c.family);
    if (const auto others = families_with_preset(c.preset); !others.empty())
      return fail("family '{}' has no preset '{}'; set the key family = {}, or take one of {}",
                  c.family,
                  c.preset,
                  fmt::join(others, " or "),
                  fmt::join(names, ", "));
    return fail("unknown preset '{}'{}; family '{}' has {}",
                printable(c.preset),
                did_you_mean(c.preset, names),
                c.family,
                fmt::join(names, ", "));
  }
  if (Result<bool> ok = fill_shape(c, family, *preset); !ok) return ok.error();
  if (Result<bool> ok = check_pattern(c, family); !ok) return ok.error();
  return c;
}

Result<TrainConfig> resolve(TrainConfig config) {
  Result<TrainConfig> filled = fill_from_preset(std::move(config));
  if (!filled) return filled;
  const TrainConfig& c = *filled;
  if (Result<bool> ok = check(c); !ok) return ok.error();
  if (Result<bool> ok = check_mup(c); !ok) return ok.error();
  if (const FamilyConfig& family = family_of(c); family.check != nullptr)
    if (Result<bool> ok = family.check(c); !ok) return ok.error();
  for (const Optimization& row : optimizations().all())
    if (Result<bool> ok = check_needs(row, c); !ok) return ok.error();
  return filled;
}

Result<TrainConfig> resolve_json(const nlohmann::json& json) {
  Result<TrainConfig> config = config_from_json(json);
  return config ? resolve(*std::move(config)) : config;
}

} // namespace assay
