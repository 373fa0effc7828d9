// Parameters and bytes of a resolved configuration, by arithmetic on the shapes of docs/model.md.
// What a step costs: step_cost.h.
#include <algorithm>

#include "model/config/train_config.h"

namespace assay {

namespace {

struct LayerSize {
  std::int64_t matrix = 0;       // parameters that take part in matrix products
  std::int64_t vector = 0;       // norms, convolutions, decays
  std::int64_t token_floats = 0; // activations kept for backward, a token
};

LayerSize delta_layer(const TrainConfig& c) {
  const std::int64_t inner = c.heads * c.head_dim;
  LayerSize size;
  size.matrix = c.d_model * (4 * inner + 2 * c.heads) + inner * c.d_model; // q k v gate | a b | out
  size.vector = 3 * inner * c.conv_kernel + 2 * c.heads + c.head_dim; // conv, A_log, dt_bias, norm
  size.token_floats = 16 * inner + 4 * c.heads * c.chunk_size;
  return size;
}

LayerSize latent_attention_layer(const TrainConfig& c) {
  const std::int64_t query = c.heads * (c.head_dim + c.rope_dim);
  LayerSize size;
  size.matrix = c.d_model * query + c.d_model * (c.kv_rank + c.rope_dim) +
                c.kv_rank * c.heads * 2 * c.head_dim + c.heads * c.head_dim * c.d_model;
  size.vector = c.kv_rank;
  size.token_floats = 4 * query + 3 * c.heads * c.head_dim + c.kv_rank;
  return size;
}

LayerSize sparse_attention_layer(const TrainConfig& c) {
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

LayerSize mixer(const TrainConfig& c, char kind) {
  if (kind == 'G') return delta_layer(c);
  return kind == 'M' ? latent_attention_layer(c) : sparse_attention_layer(c);
}

} // namespace

ModelSize model_size(const TrainConfig& c) {
  std::int64_t matrix = c.d_model * c.vocab_size, vector = c.d_model; // head | final norm
  std::int64_t token_floats = 3 * c.vocab_size;                       // logits and their gradient
  const std::int64_t ffn_matrices = c.family == "nsa" ? 2 : 3;        // SiLU MLP, SwiGLU
  for (const char kind : c.pattern) {
    const LayerSize layer = mixer(c, kind);
    matrix += layer.matrix + ffn_matrices * c.d_model * c.ffn_dim;
    vector += layer.vector + 2 * c.d_model;
    token_floats += layer.token_floats + 4 * c.d_model + 4 * c.ffn_dim;
    const bool dense = kind == 'M' || c.nsa_attention == NsaAttention::Dense;
    if (kind != 'G' && dense && c.attention == Attention::MaskDense)
      token_floats += c.heads * c.seq_len; // score matrix
  }
  const std::int64_t tokens = c.seq_len * c.batch_rows;
  ModelSize size;
  size.parameters = matrix + vector + c.vocab_size * c.d_model; // embedding
  size.state_bytes = size.parameters * 4 * (c.ema_decay > 0 ? 5 : 4);
  size.activation_bytes = tokens * token_floats * 4;
  return size;
}

} // namespace assay
