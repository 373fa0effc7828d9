// How many tokens' logits exist at a time when the loss is computed in chunks: for the layer that
// does so (model/layers/loss_head.h) and for the cost of a step.
#pragma once

#include <algorithm>
#include <cstdint>

namespace assay {

// Tokens of a chunk under a budget in MiB, at least one; the last chunk may have fewer. Chunks are
// as equal as multiples of 128 allow, which products like. `logit_bytes`: of all that exists of one
// logit; a token's logits are padded to a multiple of eight.
constexpr std::int64_t loss_chunk_tokens(std::int64_t tokens,
                                         std::int64_t vocab_size,
                                         std::int64_t budget_mib,
                                         std::int64_t logit_bytes) {
  constexpr std::int64_t kMultiple = 128;
  const std::int64_t token_bytes = (vocab_size + 7) / 8 * 8 * logit_bytes;
  std::int64_t most = std::max<std::int64_t>(1, (budget_mib << 20) / token_bytes);
  if (most >= tokens) return tokens;
  if (most < kMultiple) return most;
  most -= most % kMultiple;
  const std::int64_t chunks = (tokens + most - 1) / most, even = (tokens + chunks - 1) / chunks;
  return (even + kMultiple - 1) / kMultiple * kMultiple;
}

} // namespace assay
