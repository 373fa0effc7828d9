// Named shapes and the checks that every resolved configuration passes.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "model/config/nsa_shape.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

struct Preset {
  const char *family, *name, *pattern;
  std::int64_t d_model, heads, head_dim, rope_dim, ffn_dim, vocab_size, seq_len, batch_rows;
  double lr;
  std::int64_t kv_rank = 0;                 // deltanet_mla
  std::int64_t kv_groups = 0, gate_dim = 0; // nsa, from here on
  std::int64_t block = 0, stride = 0, select_block = 0, select_count = 0, window = 0;
};

constexpr const char *kDelta = "deltanet_mla", *kNsa = "nsa";

// tiny: about 1 M parameters, for CPU verdicts and tests.
// deltanet_mla base: the DeltaNet-MLA 2:1 shape of the published PyTorch + FLA comparison (12
// layers, width 768, 12 heads of 64, latent 256 + rotary 32, SwiGLU 2048).
//
// nsa base: the shape that its source calls 125 M (12 layers, width 768, 12 heads of 64 in 2
// groups, byte vocabulary, S 2048). By count it has 78 M parameters: 124 M are those of GPT-2 at
// this width and depth, with keys and values for every head and a vocabulary of 50 K.
//
// The rows of nsa end with groups, gate width, and l, d, l', n, w of NsaShape.
constexpr std::array<Preset, 6> kPresets{{
    {kDelta, "tiny", "GGM", 160, 5, 32, 16, 320, 256, 128, 2, 4e-3, 64},
    {kDelta, "small", "GGMGGM", 512, 8, 64, 32, 1408, 8192, 512, 8, 1e-3, 128},
    {kDelta, "base", "GGMGGMGGMGGM", 768, 12, 64, 32, 2048, 50304, 2048, 16, 6e-4, 256},
    {kNsa, "tiny", "NNN", 128, 4, 64, 64, 384, 256, 128, 2, 4e-3, 0, 2, 16, 8, 4, 16, 4, 32},
    {kNsa, "small", "NNNNNN", 512, 8, 64, 64, 2048, 256, 512, 8, 1e-3, 0, 2, 32, 16, 8, 32, 8, 128},
    {kNsa, "base", "NNNNNNNNNNNN", 768, 12, 64, 64, 3072, 256, 2048, 8, 6e-4, 0, 2, 32, 32, 16, 64,
     16,   512},
}};

// A shape key: what fills it, and the one family that has it (null: every family).
struct ShapeKey {
  const char* name;
  std::int64_t TrainConfig::*value;
  std::int64_t Preset::*preset;
  const char* family = nullptr;
};

constexpr std::array<ShapeKey, 16> kShapeKeys{{
    {"d_model", &TrainConfig::d_model, &Preset::d_model},
    {"heads", &TrainConfig::heads, &Preset::heads},
    {"head_dim", &TrainConfig::head_dim, &Preset::head_dim},
    {"rope_dim", &TrainConfig::rope_dim, &Preset::rope_dim},
    {"ffn_dim", &TrainConfig::ffn_dim, &Preset::ffn_dim},
    {"vocab_size", &TrainConfig::vocab_size, &Preset::vocab_size},
    {"seq_len", &TrainConfig::seq_len, &Preset::seq_len},
    {"batch_rows", &TrainConfig::batch_rows, &Preset::batch_rows},
    {"kv_rank", &TrainConfig::kv_rank, &Preset::kv_rank, kDelta},
    {"kv_groups", &TrainConfig::kv_groups, &Preset::kv_groups, kNsa},
    {"nsa_gate_dim", &TrainConfig::nsa_gate_dim, &Preset::gate_dim, kNsa},
    {"nsa_block", &TrainConfig::nsa_block, &Preset::block, kNsa},
    {"nsa_stride", &TrainConfig::nsa_stride, &Preset::stride, kNsa},
    {"nsa_select_block", &TrainConfig::nsa_select_block, &Preset::select_block, kNsa},
    {"nsa_select_count", &TrainConfig::nsa_select_count, &Preset::select_count, kNsa},
    {"nsa_window", &TrainConfig::nsa_window, &Preset::window, kNsa},
}};

template <class T> void fill(T& value, T preset_value) {
  if (value == T{}) value = preset_value;
}

Result<bool> fill_shape(TrainConfig& c, const Preset& preset) {
  fill(c.pattern, std::string(preset.pattern));
  fill(c.lr, preset.lr);
  const bool head_dim_given = c.head_dim != 0;
  for (const ShapeKey& key : kShapeKeys) {
    if (key.family != nullptr && c.family != key.family) {
      if (c.*key.value != 0)
        return fail(
            "key '{}' belongs to family {}, not {}: remove it", key.name, key.family, c.family);
      continue;
    }
    // NSA rotates whole heads, so that a head width that is named sets the rotary width too.
    const bool follows = c.family == kNsa && head_dim_given && key.value == &TrainConfig::rope_dim;
    fill(c.*key.value, follows ? c.head_dim : preset.*key.preset);
    if (c.*key.value <= 0)
      return fail("key '{}' must be at least 1, not {}", key.name, c.*key.value);
  }
  return true;
}

Result<bool> check_delta(const TrainConfig& c) {
  for (const char layer : c.pattern)
    if (layer != 'G' && layer != 'M')
      return fail("key 'pattern' holds G and M only, not '{}'", printable(c.pattern));
  return true;
}

Result<bool> check_nsa(const TrainConfig& c) {
  for (const char layer : c.pattern)
    if (layer != 'N')
      return fail("key 'pattern' of family nsa holds N only, not '{}'", printable(c.pattern));
  if (c.heads % c.kv_groups != 0)
    return fail("key 'kv_groups' ({}) must divide 'heads' ({})", c.kv_groups, c.heads);
  if (c.rope_dim != c.head_dim)
    return fail("key 'rope_dim' ({}) must equal 'head_dim' ({}) in family nsa: leave it out",
                c.rope_dim,
                c.head_dim);
  if (c.nsa_block % c.nsa_stride != 0 || c.nsa_select_block % c.nsa_stride != 0)
    return fail("key 'nsa_stride' ({}) must divide 'nsa_block' ({}) and 'nsa_select_block' ({})",
                c.nsa_stride,
                c.nsa_block,
                c.nsa_select_block);
  if (c.nsa_select_count < kNsaForcedBlocks)
    return fail(
        "key 'nsa_select_count' must be at least {} (the first block and two local ones are "
        "always selected), not {}",
        kNsaForcedBlocks,
        c.nsa_select_count);
  return true;
}

constexpr std::int64_t kMaxRanks = 1024, kMaxBucketMib = 16384;

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
    return fail("key 'ema_decay' must lie in [0, 1), not {}", c.ema_decay);
  if (c.beta1 < 0 || c.beta1 >= 1 || c.beta2 < 0 || c.beta2 >= 1)
    return fail("keys 'beta1' and 'beta2' must lie in [0, 1)");
  if (c.min_lr_ratio < 0 || c.min_lr_ratio > 1)
    return fail("key 'min_lr_ratio' must lie in [0, 1], not {}", c.min_lr_ratio);
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
    return fail("key 'planted_spin' must lie in [0, 10], not {}", c.planted_spin);
  return true;
}

} // namespace

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets)
    if (std::find(names.begin(), names.end(), preset.family) == names.end())
      names.emplace_back(preset.family);
  return names;
}

std::vector<std::string> preset_names(std::string_view family) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets)
    if (family == preset.family) names.emplace_back(preset.name);
  return names;
}

Result<TrainConfig> resolve(TrainConfig c) {
  const std::vector<std::string> names = preset_names(c.family);
  if (names.empty())
    return fail(
        "unknown model family '{}'{}", printable(c.family), did_you_mean(c.family, family_names()));
  const auto* preset = std::find_if(kPresets.begin(), kPresets.end(), [&](const Preset& p) {
    return c.family == p.family && c.preset == p.name;
  });
  if (preset == kPresets.end())
    return fail("unknown preset '{}'{}; family '{}' has {}",
                printable(c.preset),
                did_you_mean(c.preset, names),
                c.family,
                fmt::join(names, ", "));
  if (Result<bool> ok = fill_shape(c, *preset); !ok) return ok.error();
  if (Result<bool> ok = check(c); !ok) return ok.error();
  if (Result<bool> ok = c.family == kNsa ? check_nsa(c) : check_delta(c); !ok) return ok.error();
  return c;
}

} // namespace assay
