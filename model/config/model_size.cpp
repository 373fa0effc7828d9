// Parameters and bytes of a resolved configuration, by arithmetic on the shapes of docs/model.md.
// What a step costs: step_cost.h.
#include "model/config/family_config.h"

namespace assay {

ModelSize model_size(const TrainConfig& c) {
  std::int64_t matrix = c.d_model * c.vocab_size, vector = c.d_model; // head | final norm
  std::int64_t token_floats = 3 * c.vocab_size;                       // logits and their gradient
  const std::int64_t ffn_matrices = family_of(c).ffn_matrices;
  for (const char letter : c.pattern) {
    const LayerKind& kind = layer_kind(c, letter);
    const LayerSize layer = kind.size(c);
    matrix += layer.matrix + ffn_matrices * c.d_model * c.ffn_dim;
    vector += layer.vector + 2 * c.d_model;
    token_floats += layer.token_floats + 4 * c.d_model + 4 * c.ffn_dim;
    if (kind.layouts(c).causal_mask && c.attention == Attention::MaskDense)
      token_floats += c.heads * c.seq_len; // score matrix
  }
  const std::int64_t tokens = c.seq_len * c.batch_rows;
  ModelSize size;
  size.parameters = matrix + vector + c.vocab_size * c.d_model; // embedding
  size.state_bytes = size.parameters * 4 * (c.ema_decay > 0 ? 5 : 4);
  if (c.weights16 == Weights16::Kept) size.state_bytes += matrix * 2;
  constexpr std::int64_t kMost = std::int64_t{1} << 58; // sums of a few stay within 64 bits
  size.activation_bytes = token_floats < kMost / 4 / tokens ? tokens * token_floats * 4 : kMost;
  return size;
}

} // namespace assay
