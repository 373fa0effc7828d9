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
  std::int64_t context = 0;     // tokens that attention may see; 0: seq_len
  std::int64_t stop_token = -1; // ends the text and is not returned; -1: none
};

// Tokens of a context that layers carry (states, keys and values), so that each token is read once:
// without end where all are recurrent, seq_len where some attend, since training showed them no
// longer distance; 0 where a layer carries nothing, as in families nsa and hydra.
std::int64_t context_limit(const TrainConfig& config);
// The same where a person asked for more (0: did not). Throws bad input where it cannot be had.
std::int64_t context_limit(const TrainConfig& config, std::int64_t asked);

// The new ids. Within the limit the context is read once, seq_len tokens at a time at most; behind
// it the last tokens, seq_len or those asked for, are computed again for each token. Throws bad
// input on an empty prompt, an id outside the vocabulary, or a context that cannot be had.
std::vector<std::int64_t>
generate(Trainer& trainer, const std::vector<std::int64_t>& prompt, const Sampling& sampling);

} // namespace assay
