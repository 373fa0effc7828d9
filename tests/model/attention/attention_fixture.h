// Causal attention in plain operations, document by document: what every kernel is compared with;
// documents of random lengths; and what a configuration is refused for.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "model/config/train_config.h"

namespace assay::testing_model {

// `documents` pieces of rows * length tokens; a piece is part of one row.
inline std::vector<std::int32_t>
cut(std::int32_t rows, std::int32_t length, std::int32_t documents, unsigned seed) {
  std::mt19937 random(seed);
  std::set<std::int32_t> borders;
  for (std::int32_t row = 0; row <= rows; ++row) borders.insert(row * length);
  while (borders.size() <= static_cast<std::size_t>(documents))
    borders.insert(static_cast<std::int32_t>(random() % static_cast<unsigned>(rows * length)));
  return {borders.begin(), borders.end()};
}

// q, k [T, H, Dqk], v [T, H, Dv] -> [T, H, Dv] in their type; documents end at cu[1], cu[2] …
inline at::Tensor plain_attention(const at::Tensor& q,
                                  const at::Tensor& k,
                                  const at::Tensor& v,
                                  const std::vector<std::int32_t>& cu,
                                  double scale) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    const std::int64_t length = cu[i] - cu[i - 1];
    const auto part = [&](const at::Tensor& x) {
      return x.narrow(0, cu[i - 1], length).transpose(0, 1);
    };
    const at::Tensor above = at::ones({length, length}, q.options().dtype(at::kBool)).triu(1);
    const at::Tensor scores = at::bmm(part(q), part(k).transpose(1, 2)) * scale;
    parts.push_back(
        at::bmm(scores.masked_fill(above, -INFINITY).softmax(-1), part(v)).transpose(0, 1));
  }
  return at::cat(parts);
}

// Why `config` in bf16 on a GPU, with `choice` and then `change`, is refused; "" if it is not.
inline std::string
refusal(TrainConfig config, MlaAttention choice, const std::function<void(TrainConfig&)>& change) {
  config.mla_attention = choice;
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  change(config);
  const Result<TrainConfig> resolved = resolve(config);
  return resolved ? "" : resolved.error().message;
}

} // namespace assay::testing_model
