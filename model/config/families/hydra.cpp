// Family `hydra`: layers of compressed convolutional attention (C), whose feed-forwards are applied
// several times and to some of the tokens.
#include <fmt/format.h>

#include "model/config/family_config.h"
#include "model/config/shapes/grouped_heads.h"
#include "model/config/shapes/hydra_shape.h"

namespace assay {

namespace {

LayerSize compressed_size(const TrainConfig& c) {
  const std::int64_t inner = c.heads * c.head_dim, shared = c.kv_groups * c.head_dim;
  LayerSize size;
  // q k v | convolutions within heads, then of all | out
  size.matrix = c.d_model * (inner + 2 * shared) + kHydraTaps * (c.head_dim + inner) * inner +
                kHydraTaps * (c.head_dim + shared) * shared + inner * c.d_model;
  size.vector = 1; // the keys' temperature
  size.token_floats = (8 + 4 * kHydraTaps) * (inner + shared);
  return size;
}

StepShape::Layer compressed_cost(const TrainConfig& c, std::int64_t) {
  GroupedShape shape;
  shape.heads = c.heads;
  shape.groups = c.kv_groups;
  shape.head_dim = c.head_dim;
  shape.taps = kHydraTaps;
  shape.keys = static_cast<double>(c.seq_len + 1) / 2;
  return shape;
}

Layouts compressed_layouts(const TrainConfig&) {
  return {.rotary = true, .positions = true, .causal_mask = true};
}

HeadWidth compressed_width(const TrainConfig& c) {
  return {c.head_dim, fmt::format("head_dim {}", c.head_dim)};
}

// Of masked routing all that are computed; of the other forms at most: depths are the model's.
double hydra_passes(const TrainConfig& c, std::size_t layer) {
  const auto passes = static_cast<double>(c.recursions);
  const bool some = has_mod(c, layer) && c.routing != Routing::Masked;
  return some ? passes * static_cast<double>(c.mod_percent) / 100 : passes;
}

std::int64_t hydra_routers(const TrainConfig& c) {
  std::int64_t routers = 0;
  for (std::size_t i = 0; i < c.pattern.size(); ++i)
    routers += (c.recursions > 1 ? c.d_model + 1 : 0) + (has_mod(c, i) ? c.d_model : 0);
  return routers;
}

} // namespace

// base: the shape that its source calls 100 M: width 768, 8 layers with 4 recursions, 12 heads of
// 16 in 3 groups, 75 % of tokens, vocabulary 32,000. The source does not give ffn_dim; this one
// makes 99.4 M parameters.
FamilyConfig hydra_config() {
  return {
      .name = "hydra",
      // d_model heads head_dim rope_dim ffn_dim vocab_size seq_len batch_rows |
      // kv_groups recursions mod_percent
      .presets = {{"tiny", "CCCC", 4e-3, {128, 4, 16, 16, 384, 256, 128, 2, 2, 2, 75}},
                  {"base", "CCCCCCCC", 6e-4, {768, 12, 16, 16, 3840, 32000, 1024, 8, 3, 4, 75}}},
      .keys = {{"kv_groups", &TrainConfig::kv_groups},
               {"recursions", &TrainConfig::recursions, false},
               {"mod_percent", &TrainConfig::mod_percent, false}},
      .layers = {{'C', compressed_size, compressed_cost, compressed_layouts, compressed_width}},
      .form = {.feed_forward = FeedForward::SwiGlu, .tied_head = true, .matrix_std = 0.02},
      .prepare = rotate_whole_heads,
      .check = check_grouped_heads,
      .feed_forward_passes = hydra_passes,
      .router_parameters = hydra_routers};
}

} // namespace assay
