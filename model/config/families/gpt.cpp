// Family `gpt`: layers of causal multi-head attention (A) in the form of GPT-2.
#include <fmt/format.h>

#include <algorithm>

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/config/mla_attention.h"

namespace assay {

namespace {

LayerSize attention_size(const TrainConfig& c) {
  const std::int64_t inner = c.heads * c.head_dim;
  LayerSize size;
  size.matrix = c.d_model * 3 * inner + inner * c.d_model; // q k v | out
  size.vector = 3 * inner + c.d_model;                     // biases
  size.token_floats = 8 * inner;
  return size;
}

StepShape::Layer attention_cost(const TrainConfig& c, std::int64_t) {
  return CausalShape{c.heads,
                     c.head_dim,
                     static_cast<double>(c.seq_len + 1) / 2,
                     c.mla_attention,
                     c.attention == Attention::Varlen};
}

Layouts attention_layouts(const TrainConfig&) {
  return {.positions = true, .causal_mask = true};
}

HeadWidth attention_width(const TrainConfig& c) {
  return {c.head_dim, fmt::format("head_dim {}", c.head_dim)};
}

// A row that is longer than the preset's table gets a longer one.
void positions_of_long_rows(TrainConfig& c, const Preset& preset) {
  if (c.positions == 0) c.positions = std::max(c.seq_len, preset.values.back());
}

Result<bool> check_gpt(const TrainConfig& c) {
  if (c.seq_len > c.positions)
    return fail("key 'positions' ({}) must be at least 'seq_len' ({})", c.positions, c.seq_len);
  return check_mla_attention(c);
}

} // namespace

// gpt2: GPT-2 of 124 M parameters (12 layers, width 768, 12 heads of 64, 1024 positions). Its
// vocabulary of 50,257 is padded to 50,304, the next multiple of 64, which products are fast with;
// llm.c and nanoGPT do the same. The loader takes any vocabulary that the tokenizer's fits in.
FamilyConfig gpt_config() {
  return {
      .name = "gpt",
      // d_model heads head_dim rope_dim ffn_dim vocab_size seq_len batch_rows | positions
      .presets = {{"tiny", "AAA", 2e-3, {128, 4, 32, 0, 512, 256, 128, 2, 128}},
                  {"small", "AAAAAA", 1e-3, {512, 8, 64, 0, 2048, 8192, 512, 8, 512}},
                  {"gpt2", "AAAAAAAAAAAA", 6e-4, {768, 12, 64, 0, 3072, 50304, 1024, 32, 1024}}},
      .keys = {{"positions", &TrainConfig::positions}},
      .layers = {{'A', attention_size, attention_cost, attention_layouts, attention_width, true}},
      .form = {.feed_forward = FeedForward::Gelu,
               .layer_norm = true,
               .biases = true,
               .tied_head = true,
               .positions = true,
               .matrix_std = 0.02},
      .prepare = positions_of_long_rows,
      .check = check_gpt};
}

} // namespace assay
