// Family `rwmba`: RWKV-6 and Mamba-2 side by side (P), RWKV-6 (R) or Mamba-2 (S) alone.
#include "core/result.h"
#include "model/config/family_config.h"
#include "model/config/shapes/rwmba_shape.h"

namespace assay {

namespace {

LayerSize rwkv_size(const TrainConfig& c) {
  const std::int64_t d = c.d_model, inner = c.heads * c.head_dim, rank = c.mix_rank;
  LayerSize size;
  // r k v gate | out | mixes and decays of low rank
  size.matrix = d * 4 * inner + inner * d + 10 * rank * d + rank * (d + inner);
  size.vector = 6 * d + 4 * inner; // mix | decay, bonus, norm and its bias
  size.token_floats = 12 * d + 12 * inner + 2 * c.heads * c.chunk_size;
  return size;
}

LayerSize mamba_size(const TrainConfig& c) {
  const std::int64_t inner = kMambaExpand * c.heads * c.head_dim, states = 2 * c.state_dim;
  LayerSize size;
  size.matrix = c.d_model * (2 * inner + states + c.heads) + inner * c.d_model;
  size.vector = (inner + states) * c.conv_kernel + 3 * c.heads + inner;
  size.token_floats = 8 * inner + 4 * c.heads * c.state_dim + 2 * c.heads * c.chunk_size;
  return size;
}

LayerSize parallel_size(const TrainConfig& c) {
  const LayerSize rwkv = rwkv_size(c), mamba = mamba_size(c);
  return {rwkv.matrix + mamba.matrix,
          rwkv.vector + mamba.vector + 4 * c.d_model, // norms and gains
          rwkv.token_floats + mamba.token_floats + 4 * c.d_model};
}

ScanShape scan_cost(const TrainConfig& c, bool rwkv, bool mamba) {
  ScanShape shape;
  shape.heads = c.heads;
  shape.head_dim = c.head_dim;
  shape.mix_rank = rwkv ? c.mix_rank : 0;
  shape.state_dim = mamba ? c.state_dim : 0;
  shape.value_dim = kMambaExpand * c.head_dim;
  shape.chunk = c.chunk_size;
  return shape;
}

StepShape::Layer rwkv_cost(const TrainConfig& c, std::int64_t) {
  return scan_cost(c, true, false);
}

StepShape::Layer mamba_cost(const TrainConfig& c, std::int64_t) {
  return scan_cost(c, false, true);
}

StepShape::Layer parallel_cost(const TrainConfig& c, std::int64_t) {
  return scan_cost(c, true, true);
}

Layouts scan_layouts(const TrainConfig&) {
  return {.chunks = true};
}

Result<bool> check_rwmba(const TrainConfig& c) {
  if ((c.chunk_size & (c.chunk_size - 1)) != 0)
    return fail("key 'chunk_size' ({}) must be a power of two in family rwmba", c.chunk_size);
  if (c.conv_kernel < 2)
    return fail("key 'conv_kernel' ({}) must be at least 2 in family rwmba, which reads the token "
                "before",
                c.conv_kernel);
  return true;
}

} // namespace

// chars: the character-level shape of the published RwMBA (8 layers, width 128, 4 heads, 64 × 64
// tokens), in bytes.
FamilyConfig rwmba_config() {
  return {
      .name = "rwmba",
      // d_model heads head_dim rope_dim ffn_dim vocab_size seq_len batch_rows | state_dim mix_rank
      .presets = {{"tiny", "PPP", 4e-3, {128, 4, 32, 0, 512, 256, 64, 4, 32, 16}},
                  {"chars", "PPPPPPPP", 2e-3, {128, 4, 32, 0, 512, 256, 64, 64, 64, 32}},
                  {"base", "PPPPPPPPPPPP", 6e-4, {768, 12, 64, 0, 3072, 50304, 2048, 8, 64, 32}}},
      .keys = {{"state_dim", &TrainConfig::state_dim}, {"mix_rank", &TrainConfig::mix_rank}},
      .layers = {{'P', parallel_size, parallel_cost, scan_layouts, nullptr, true},
                 {'R', rwkv_size, rwkv_cost, scan_layouts, nullptr, true},
                 {'S', mamba_size, mamba_cost, scan_layouts, nullptr, true}},
      .form = {.feed_forward = FeedForward::Gelu,
               .biases = true,
               .tied_head = true,
               .matrix_std = 0.02},
      .check = check_rwmba};
}

} // namespace assay
