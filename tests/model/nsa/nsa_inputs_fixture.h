// Inputs of nsa_fused_attention(), and the operators whose place it takes.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <vector>

#include "model/layers/attention/attention.h"
#include "model/layout/positions.h"
#include "model/layout/segments.h"
#include "model/nsa/nsa_inputs.h"

namespace assay::testing_model {

struct NsaCase {
  std::vector<std::int32_t> cu;
  NsaShape shape;
  std::int64_t heads, groups, width, gate;

  NsaSizes sizes() const { return {heads, groups}; }
  double scale() const { return 0.3; }
  NsaLayoutPtr layout(at::Device device = at::kCPU) const {
    return std::make_shared<const NsaLayout>(
        make_nsa_layout(segments_of(cu, device), shape, kNsaQueryChunk));
  }
  Rotary rotary(at::Device device = at::kCPU) const {
    return make_rotary(segments_of(cu, device), width);
  }
};

inline at::Tensor seeded_normal(at::IntArrayRef sizes, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty(sizes, at::kDouble).normal_(0, 1, generator);
}

// Product, weights of the gates: what has a gradient.
inline std::vector<at::Tensor> nsa_leaves(const NsaCase& c, std::uint64_t seed = 1) {
  const std::int64_t columns = (c.heads + 6 * c.groups) * c.width;
  return {seeded_normal({c.cu.back(), columns}, seed),
          seeded_normal({c.gate, c.width}, seed + 1),
          seeded_normal({c.gate}, seed + 2),
          seeded_normal({3, c.gate}, seed + 3),
          seeded_normal({3}, seed + 4)};
}

inline NsaGateWeights nsa_gate(const std::vector<at::Tensor>& x) {
  return {x[1], x[2], x[3], x[4]};
}

inline at::Tensor nsa_by_operators(const NsaCase& c, const std::vector<at::Tensor>& x) {
  const Rotary rotary = c.rotary();
  const at::Tensor rows = x[0].unflatten(1, {c.heads + 6 * c.groups, c.width});
  const at::Tensor q = apply_rope(rows.narrow(1, 0, c.heads), rotary.cos, rotary.sin),
                   k = apply_rope(rows.narrow(1, c.heads, 3 * c.groups), rotary.cos, rotary.sin);
  const auto keys = k.chunk(3, 1),
             values = rows.narrow(1, c.heads + 3 * c.groups, 3 * c.groups).chunk(3, 1);
  const at::Tensor mean = q.unflatten(1, {c.groups, -1}).mean(2);
  const at::Tensor gates =
      at::linear(at::silu(at::linear(mean, x[1], x[2])), x[3], x[4]).softmax(-1);
  return nsa_attention({.q = q,
                        .k_cmp = keys[0],
                        .k_sel = keys[1],
                        .k_win = keys[2],
                        .v_cmp = values[0],
                        .v_sel = values[1],
                        .v_win = values[2],
                        .gates = gates,
                        .scale = c.scale()},
                       c.layout());
}

} // namespace assay::testing_model
