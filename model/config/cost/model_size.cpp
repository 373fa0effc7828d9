// Parameters and bytes of a resolved configuration, by arithmetic on the shapes of docs/model.md.
// What a step costs: step_cost.h.
#include <algorithm>

#include "model/config/family_config.h"
#include "model/config/shapes/expert_shape.h"

namespace assay {

namespace {

// Newton-Schulz of the most matrices of one shape at once, those of the feed-forwards. Of each
// number the momentum in 4 bytes, two copies in 2, and two squares of the matrices, smaller than
// they.
std::int64_t muon_bytes(const TrainConfig& c, std::int64_t ffn_matrices) {
  const std::int64_t of_layer =
      c.d_model * std::max((ffn_matrices - 1) * c.ffn_dim, 2 * c.experts * c.expert_dim);
  return 11 * static_cast<std::int64_t>(c.pattern.size()) * of_layer;
}

} // namespace

ModelSize model_size(const TrainConfig& c) {
  const ModelForm& form = family_of(c).form;
  const std::int64_t norm = form.layer_norm ? 2 * c.d_model : c.d_model;
  std::int64_t matrix = c.d_model * c.vocab_size, vector = norm; // head | final norm
  std::int64_t token_floats = 0;
  std::int64_t recomputed = 0;
  const std::int64_t ffn = ffn_matrices(form.feed_forward);
  const std::int64_t ffn_biases = form.biases ? (ffn - 1) * c.ffn_dim + c.d_model : 0;
  if (family_of(c).router_parameters != nullptr) vector += family_of(c).router_parameters(c);
  for (std::size_t i = 0; i < c.pattern.size(); ++i) {
    const LayerKind& kind = layer_kind(c, c.pattern[i]);
    const LayerSize layer = kind.size(c);
    matrix += layer.matrix + ffn * c.d_model * c.ffn_dim + expert_parameters(c);
    vector += layer.vector + 2 * norm + ffn_biases;
    const std::int64_t kept =
        layer.token_floats +
        static_cast<std::int64_t>(feed_forward_passes(c, i) *
                                  static_cast<double>(4 * c.d_model + 4 * c.ffn_dim)) +
        c.experts + c.experts_taken * (2 * c.d_model + 4 * c.expert_dim);
    if (is_recomputed(c, i)) {
      token_floats += 2 * c.d_model;
      recomputed = std::max(recomputed, kept); // a layer at a time
    } else {
      token_floats += kept;
    }
    if (kind.layouts(c).causal_mask && c.attention == Attention::MaskDense)
      token_floats += c.heads * c.seq_len; // score matrix
  }
  token_floats += recomputed;
  const std::int64_t tokens = c.seq_len * c.batch_rows;
  ModelSize size;
  size.parameters = matrix + vector;
  if (!form.tied_head) size.parameters += c.vocab_size * c.d_model; // embedding
  if (form.positions) size.parameters += c.positions * c.d_model;
  const std::int64_t idle = c.experts - c.experts_taken; // of a layer, by one token
  size.active_parameters = size.parameters - static_cast<std::int64_t>(c.pattern.size()) * idle *
                                                 3 * c.d_model * c.expert_dim;
  const std::int64_t by_muon =
      c.optimizer == OptimizerKind::Muon ? matrix - c.d_model * c.vocab_size : 0;
  size.state_bytes =
      4 * (size.parameters * (c.ema_decay > 0 ? 4 : 3) - by_muon); // of Muon one moment
  if (c.weights16 == Weights16::Kept) size.state_bytes += matrix * 2;
  constexpr std::int64_t kMost = std::int64_t{1} << 58; // sums of a few stay within 64 bits
  const auto of_tokens = [&](std::int64_t bytes) {
    return bytes < kMost / tokens ? tokens * bytes : kMost;
  };
  const std::int64_t logits =
                         of_tokens(std::int64_t{12} * c.vocab_size), // they, and their gradient
      chunk = 3 * (c.loss_chunk_mib << 20);
  size.gradient_bytes = 4 * size.parameters;
  size.activation_bytes = of_tokens(token_floats * (c.precision == Precision::Fp32 ? 4 : 2)) +
                          (c.loss_chunk_mib == 0 ? logits : std::min(logits, chunk));
  size.activation_bytes = std::min(size.activation_bytes, kMost);
  if (c.muon_form == MuonForm::Batched && by_muon > 0) size.update_bytes = muon_bytes(c, ffn);
  return size;
}

} // namespace assay
