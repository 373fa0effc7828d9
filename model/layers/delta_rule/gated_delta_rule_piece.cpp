// The chunk form of docs/model.md, "Gated delta rule", for one segment and without a backward pass.
#include <algorithm>
#include <cmath>
#include <vector>

#include "model/layers/autocast.h"
#include "model/layers/delta_rule/gated_delta_rule.h"

namespace assay {

namespace {

constexpr std::int64_t kChunk = 64;

// All [H, C, ...]; the query is scaled. Moves the state [H, K, V] behind the chunk.
at::Tensor chunk_output(const at::Tensor& query,
                        const at::Tensor& key,
                        const at::Tensor& value,
                        const at::Tensor& decay, // log
                        const at::Tensor& rate,
                        at::Tensor& state) {
  const at::Tensor gamma = decay.cumsum(1), last = gamma.narrow(1, gamma.size(1) - 1, 1);
  const at::Tensor pairs = (gamma - gamma.transpose(1, 2)).tril_().exp_().tril_(); // L
  const at::Tensor erase = at::bmm(key, key.transpose(1, 2)) * pairs * rate;
  const at::Tensor read = at::bmm(key * gamma.exp(), state); // of the state that enters
  const at::Tensor update =
      at::linalg_solve_triangular(erase, (value - read) * rate, false, true, true);
  const at::Tensor out = at::bmm(query * gamma.exp(), state) +
                         at::bmm(at::bmm(query, key.transpose(1, 2)) * pairs, update);
  state = state * last.exp() + at::bmm((key * (last - gamma).exp()).transpose(1, 2), update);
  return out;
}

} // namespace

at::Tensor gated_delta_rule_piece(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const at::Tensor& g,
                                  const at::Tensor& beta,
                                  at::Tensor& state) {
  const AutocastGuard full_precision(q.device().type(), at::kFloat);
  const at::ScalarType type = wide_type(q);
  const std::int64_t heads = v.size(1), tokens = v.size(0);
  const auto by_head = [type](const at::Tensor& x) { return x.to(type).transpose(0, 1); };
  const at::Tensor query = by_head(of_value_heads(q, heads)) /
                           std::sqrt(static_cast<double>(q.size(2))),
                   key = by_head(of_value_heads(k, heads)), value = by_head(v),
                   decay = by_head(g.unsqueeze(2)), rate = by_head(beta.unsqueeze(2));
  if (!state.defined()) state = at::zeros({heads, q.size(2), v.size(2)}, query.options());
  std::vector<at::Tensor> outputs;
  for (std::int64_t begin = 0; begin < tokens; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, tokens - begin);
    const auto part = [&](const at::Tensor& x) { return x.narrow(1, begin, count); };
    outputs.push_back(
        chunk_output(part(query), part(key), part(value), part(decay), part(rate), state));
  }
  return at::cat(outputs, 1).transpose(0, 1).to(v.scalar_type());
}

} // namespace assay
