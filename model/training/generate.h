// Text generation: samples token after token from a prompt, on the EMA weights.
#pragma once

#include <cstdint>
#include <vector>

#include "model/training/trainer.h"

namespace assay {

struct Sampling {
  std::int64_t max_tokens = 100;
  double temperature = 1.0; // 0: always the likeliest token
  std::int64_t top_k = 0;   // sample among the k likeliest; 0: all
  std::uint64_t seed = 1;
  std::int64_t stop_token = -1; // ends the text and is not returned; -1: none
};

// Whether every layer carries a state behind the tokens that it has read (family rwmba).
bool carries_state(const TrainConfig& config);

// The new ids. Where the model carries its state each token is read once, seq_len tokens at a time
// at most, so that memory does not grow with the context, which has no limit; else the last
// config().seq_len tokens are computed again for each token. Throws bad input on an empty prompt or
// an id outside the vocabulary.
std::vector<std::int64_t>
generate(Trainer& trainer, const std::vector<std::int64_t>& prompt, const Sampling& sampling);

} // namespace assay
