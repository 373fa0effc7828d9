// Family `deltanet_mla`: gated DeltaNet (G) and multi-head latent attention (M) in a pattern.
#include <fmt/format.h>

#include "core/result.h"
#include "model/config/family_config.h"
#include "model/config/mla_attention.h"
#include "model/config/shapes/expert_shape.h"

namespace assay {

namespace {

LayerSize delta_size(const TrainConfig& c) {
  const std::int64_t inner = c.heads * c.head_dim;
  LayerSize size;
  size.matrix = c.d_model * (4 * inner + 2 * c.heads) + inner * c.d_model; // q k v gate | a b | out
  size.vector = 3 * inner * c.conv_kernel + 2 * c.heads + c.head_dim; // conv, A_log, dt_bias, norm
  size.token_floats = 16 * inner + 4 * c.heads * c.chunk_size;
  return size;
}

StepShape::Layer delta_cost(const TrainConfig& c, std::int64_t longest_segment) {
  return DeltaShape{c.heads,
                    c.head_dim,
                    c.chunk_size,
                    (longest_segment + c.chunk_size - 1) / c.chunk_size,
                    c.delta_inputs == DeltaInputs::Fused,
                    c.delta_form == DeltaForm::Fused};
}

Layouts delta_layouts(const TrainConfig&) {
  return {.chunks = true, .delta_rule = true};
}

LayerSize latent_size(const TrainConfig& c) {
  const std::int64_t query = c.heads * (c.head_dim + c.rope_dim);
  LayerSize size;
  size.matrix = c.d_model * query + c.d_model * (c.kv_rank + c.rope_dim) +
                c.kv_rank * c.heads * 2 * c.head_dim + c.heads * c.head_dim * c.d_model;
  size.vector = c.kv_rank;
  size.token_floats = 4 * query + 3 * c.heads * c.head_dim + c.kv_rank;
  return size;
}

StepShape::Layer latent_cost(const TrainConfig& c, std::int64_t) {
  return LatentShape{c.heads,
                     c.head_dim,
                     c.rope_dim,
                     c.kv_rank,
                     static_cast<double>(c.seq_len + 1) / 2,
                     c.mla_inputs,
                     c.mla_attention,
                     c.attention == Attention::Varlen};
}

Layouts latent_layouts(const TrainConfig&) {
  return {.rotary = true, .causal_mask = true};
}

HeadWidth latent_width(const TrainConfig& c) {
  if (c.head_dim <= 0 || c.rope_dim <= 0) return {};
  const std::int64_t width = c.head_dim + c.rope_dim;
  return {width, fmt::format("head_dim {} + rope_dim {} = {}", c.head_dim, c.rope_dim, width)};
}

Result<bool> check_deltanet_mla(const TrainConfig& c) {
  if (Result<bool> ok = check_experts(c); !ok) return ok;
  return check_mla_attention(c);
}

std::int64_t routers(const TrainConfig& c) {
  return static_cast<std::int64_t>(c.pattern.size()) * c.experts * c.d_model;
}

} // namespace

// tiny: about 1 M parameters, for CPU verdicts and tests. base: the DeltaNet-MLA 2:1 shape of the
// published PyTorch + FLA comparison (12 layers, width 768, 12 heads of 64, latent 256 + rotary 32,
// SwiGLU 2048). moe-1b: the production model of the source that plans one, as far as it says: about
// 1 B parameters, of which a token uses a quarter, and 32 experts in every layer at width 1024; it
// does not give the other widths.
FamilyConfig deltanet_mla_config() {
  return {.name = "deltanet_mla",
          // d_model heads head_dim rope_dim ffn_dim vocab_size seq_len batch_rows |
          // kv_rank experts experts_taken expert_dim
          .presets = {{"tiny", "GGM", 4e-3, {160, 5, 32, 16, 320, 256, 128, 2, 64, 0, 0, 0}},
                      {"small", "GGMGGM", 1e-3, {512, 8, 64, 32, 1408, 8192, 512, 8, 128, 0, 0, 0}},
                      {"base",
                       "GGMGGMGGMGGM",
                       6e-4,
                       {768, 12, 64, 32, 2048, 50304, 2048, 16, 256, 0, 0, 0}},
                      {"moe-tiny", "GGM", 4e-3, {128, 4, 32, 16, 96, 256, 128, 2, 64, 8, 2, 96}},
                      {"moe-1b",
                       "GGMGGMGGMGGM",
                       4e-4,
                       {1024, 16, 64, 32, 704, 50304, 2048, 8, 256, 32, 2, 704}}},
          .keys = {{"kv_rank", &TrainConfig::kv_rank},
                   {"experts", &TrainConfig::experts},
                   {"experts_taken", &TrainConfig::experts_taken, false},
                   {"expert_dim", &TrainConfig::expert_dim}},
          .layers = {{'G', delta_size, delta_cost, delta_layouts, nullptr, true},
                     {'M', latent_size, latent_cost, latent_layouts, latent_width, true}},
          .form = {.mup = true},
          .check = check_deltanet_mla,
          .router_parameters = routers};
}

} // namespace assay
