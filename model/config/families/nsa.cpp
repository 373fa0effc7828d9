// Family `nsa`: layers of native sparse attention (N), or their dense twin.
#include <fmt/format.h>

#include "core/result.h"
#include "model/config/cost/launch_counts.h"
#include "model/config/family_config.h"
#include "model/config/shapes/grouped_heads.h"

namespace assay {

namespace {

LayerSize sparse_size(const TrainConfig& c) {
  const std::int64_t inner = c.heads * c.head_dim, shared = c.kv_groups * c.head_dim;
  LayerSize size;
  if (c.nsa_attention == NsaAttention::Dense) {
    size.matrix = c.d_model * (inner + 2 * shared) + inner * c.d_model; // q k v | out
    size.token_floats = 8 * inner;
    return size;
  }
  size.matrix = c.d_model * (inner + 6 * shared) + inner * c.d_model + // q, k and v a branch | out
                c.nsa_gate_dim * (c.head_dim + 3);
  size.vector = c.nsa_gate_dim + 3; // gate biases
  size.token_floats = 8 * inner + 14 * shared;
  return size;
}

// Kernels in 16 bits. Operators in fp32, and those that only operators have, follow the rows.
std::int64_t sparse_launches(const TrainConfig& c) {
  using namespace launch_counts;
  if (c.precision == Precision::Fp32) return 0;
  if (c.nsa_attention == NsaAttention::Dense)
    return c.gqa == Gqa::Shared ? kSharedKeysLaunches : kRepeatedKeysLaunches;
  if (needs_nsa_operators(c)) return 0;
  return c.nsa_inputs == NsaInputForm::Fused ? kFusedSparseLaunches : kSparseLaunches;
}

// Heads of their own keys, or groups that share them; sparse, or dense over causal rows.
StepShape::Layer sparse_cost(const TrainConfig& c, std::int64_t) {
  GroupedShape shape;
  shape.heads = c.heads;
  shape.groups = c.kv_groups;
  shape.head_dim = c.head_dim;
  shape.keys = static_cast<double>(c.seq_len + 1) / 2;
  shape.launches = sparse_launches(c);
  if (c.nsa_attention == NsaAttention::Dense) return shape;
  const NsaKeys keys = nsa_keys(nsa_shape(c), c.seq_len);
  shape.branches = 3;
  shape.gate_dim = c.nsa_gate_dim;
  shape.keys = keys.total();
  shape.scored_keys = keys.compressed;
  return shape;
}

Layouts sparse_layouts(const TrainConfig& c) {
  if (c.nsa_attention == NsaAttention::Dense) return {.rotary = true, .causal_mask = true};
  return {.rotary = true, .blocks = nsa_shape(c)};
}

HeadWidth sparse_width(const TrainConfig& c) {
  return {c.head_dim, fmt::format("head_dim {}", c.head_dim)};
}

Result<bool> check_nsa(const TrainConfig& c) {
  if (Result<bool> ok = check_grouped_heads(c); !ok) return ok;
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
  if (c.nsa_form == NsaForm::PerToken && c.nsa_ranges != NsaRanges::Direct)
    return fail("key 'nsa_ranges' must be direct with nsa_form = per_token, which gathers the "
                "tokens of blocks by itself");
  return true;
}

} // namespace

// base: the shape that its source calls 125 M (12 layers, width 768, 12 heads of 64 in 2 groups,
// byte vocabulary, S 2048). By count it has 78 M parameters: 124 M are those of GPT-2 at this width
// and depth, with keys and values for every head and a vocabulary of 50 K.
FamilyConfig nsa_config() {
  return {
      .name = "nsa",
      // d_model heads head_dim rope_dim ffn_dim vocab_size seq_len batch_rows |
      // kv_groups nsa_gate_dim nsa_block nsa_stride nsa_select_block nsa_select_count nsa_window
      .presets =
          {{"tiny", "NNN", 4e-3, {128, 4, 64, 64, 384, 256, 128, 2, 2, 16, 8, 4, 16, 4, 32}},
           {"small", "NNNNNN", 1e-3, {512, 8, 64, 64, 2048, 256, 512, 8, 2, 32, 16, 8, 32, 8, 128}},
           {"base",
            "NNNNNNNNNNNN",
            6e-4,
            {768, 12, 64, 64, 3072, 256, 2048, 8, 2, 32, 32, 16, 64, 16, 512}}},
      .keys = {{"kv_groups", &TrainConfig::kv_groups},
               {"nsa_gate_dim", &TrainConfig::nsa_gate_dim},
               {"nsa_block", &TrainConfig::nsa_block, false},
               {"nsa_stride", &TrainConfig::nsa_stride, false},
               {"nsa_select_block", &TrainConfig::nsa_select_block, false},
               {"nsa_select_count", &TrainConfig::nsa_select_count, false},
               {"nsa_window", &TrainConfig::nsa_window, false}},
      .layers = {{'N', sparse_size, sparse_cost, sparse_layouts, sparse_width}},
      .form = {.feed_forward = FeedForward::Silu},
      .prepare = rotate_whole_heads,
      .check = check_nsa};
}

} // namespace assay
