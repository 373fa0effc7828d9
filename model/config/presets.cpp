// Named shapes and the checks that every resolved configuration passes.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "model/config/train_config.h"

namespace assay {

namespace {

struct Preset {
  const char* name;
  const char* pattern;
  std::int64_t d_model, heads, head_dim, rope_dim, kv_rank, ffn_dim, vocab_size, seq_len,
      batch_rows;
  double lr;
};

// tiny: about 1 M parameters, for CPU verdicts and tests. base: the DeltaNet-MLA 2:1 shape of the
// published PyTorch + FLA comparison (12 layers, width 768, 12 heads of 64, latent 256 + rotary 32,
// SwiGLU 2048).
constexpr std::array<Preset, 3> kPresets{{
    {"tiny", "GGM", 160, 5, 32, 16, 64, 320, 256, 128, 2, 4e-3},
    {"small", "GGMGGM", 512, 8, 64, 32, 128, 1408, 8192, 512, 8, 1e-3},
    {"base", "GGMGGMGGMGGM", 768, 12, 64, 32, 256, 2048, 50304, 2048, 16, 6e-4},
}};

template <class T> void fill(T& value, T preset_value) {
  if (value == T{}) value = preset_value;
}

Result<bool> check(const TrainConfig& c) {
  const std::array<std::pair<const char*, std::int64_t>, 17> positive{
      {{"d_model", c.d_model},
       {"heads", c.heads},
       {"head_dim", c.head_dim},
       {"rope_dim", c.rope_dim},
       {"kv_rank", c.kv_rank},
       {"ffn_dim", c.ffn_dim},
       {"vocab_size", c.vocab_size},
       {"conv_kernel", c.conv_kernel},
       {"chunk_size", c.chunk_size},
       {"seq_len", c.seq_len},
       {"batch_rows", c.batch_rows},
       {"tokenizer_threads", c.tokenizer_threads},
       {"prefetch_batches", c.prefetch_batches},
       {"steps", c.steps},
       {"accumulate", c.accumulate},
       {"eval_interval", c.eval_interval},
       {"eval_batches", c.eval_batches}}};
  for (const auto& [name, value] : positive)
    if (value <= 0) return fail("key '{}' must be at least 1, not {}", name, value);
  for (const char layer : c.pattern)
    if (layer != 'G' && layer != 'M')
      return fail("key 'pattern' holds G and M only, not '{}'", printable(c.pattern));
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
  if (c.planted_spin < 0 || c.planted_spin > 10)
    return fail("key 'planted_spin' must lie in [0, 10], not {}", c.planted_spin);
  return true;
}

} // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.emplace_back(preset.name);
  return names;
}

Result<TrainConfig> resolve(TrainConfig c) {
  if (c.family != "deltanet_mla")
    return fail("unknown model family '{}'{}",
                printable(c.family),
                did_you_mean(c.family, {"deltanet_mla"}));
  const auto* preset = std::find_if(
      kPresets.begin(), kPresets.end(), [&](const Preset& p) { return c.preset == p.name; });
  if (preset == kPresets.end())
    return fail(
        "unknown preset '{}'{}", printable(c.preset), did_you_mean(c.preset, preset_names()));
  fill(c.pattern, std::string(preset->pattern));
  fill(c.d_model, preset->d_model);
  fill(c.heads, preset->heads);
  fill(c.head_dim, preset->head_dim);
  fill(c.rope_dim, preset->rope_dim);
  fill(c.kv_rank, preset->kv_rank);
  fill(c.ffn_dim, preset->ffn_dim);
  fill(c.vocab_size, preset->vocab_size);
  fill(c.seq_len, preset->seq_len);
  fill(c.batch_rows, preset->batch_rows);
  fill(c.lr, preset->lr);
  if (Result<bool> ok = check(c); !ok) return ok.error();
  return c;
}

} // namespace assay
