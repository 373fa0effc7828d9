// ModelForm: what the skeleton of a family's models is made of (model/families/residual_model.h).
// Its sizes and costs follow from it too.
#pragma once

#include <cstdint>

namespace assay {

enum class FeedForward {
  Silu,   // W_out silu(W_in x), W_in [ffn_dim, d_model]
  SwiGlu, // W_out (silu(W_gate x) * W_value x), W_in [2*ffn_dim, d_model]: gate, then value
  Gelu    // W_out gelu(W_in x + bias), the tanh form (arXiv 1606.08415, section 2), W_in as Silu
};

// Matrices of [d_model, ffn_dim].
constexpr std::int64_t ffn_matrices(FeedForward form) {
  return form == FeedForward::SwiGlu ? 3 : 2;
}

struct ModelForm {
  FeedForward feed_forward = FeedForward::SwiGlu;
  bool layer_norm = false; // with weight and bias; else RMS norms
  bool biases = false;     // of every linear but the head; Gelu needs them
  bool tied_head = false;  // the head's weight is the embedding
  bool positions = false;  // the embedding adds a learned vector a position
  bool mup = false;        // what every matrix of a layer reads grows with d_model
  double matrix_std = 0;   // of initial matrices; 0: half of 1/sqrt(fan_in), 0.1 in the embedding
};

} // namespace assay
