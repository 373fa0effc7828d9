// Random inputs of native sparse attention, and the operator written as the paper reads: token by
// token, head by head, in fp64. Shares no code with model/nsa.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/nsa/nsa.h"

namespace assay::testing_model {

inline constexpr std::int64_t kNsaHeads = 4, kNsaGroups = 2;

inline NsaInputs random_nsa_inputs(std::int64_t tokens, std::int64_t width, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto normal = [&](std::int64_t heads, std::int64_t last) {
    return at::empty({tokens, heads, last}, at::kDouble).normal_(0, 1, generator);
  };
  NsaInputs in;
  in.q = normal(kNsaHeads, width);
  for (at::Tensor* x : {&in.k_cmp, &in.k_sel, &in.k_win, &in.v_cmp, &in.v_sel, &in.v_win})
    *x = normal(kNsaGroups, width);
  in.gates = normal(kNsaGroups, 3).softmax(-1);
  in.scale = 0.8; // above 1/sqrt(width): probabilities that differ
  return in;
}

inline std::vector<at::Tensor*> nsa_tensors(NsaInputs& in) {
  return {&in.q, &in.k_cmp, &in.k_sel, &in.k_win, &in.v_cmp, &in.v_sel, &in.v_win, &in.gates};
}

// One query in one document. x_doc: rows of the document; t: place in it.
struct NsaLoop {
  NsaShape shape;
  NsaInputs in; // of one document

  // softmax(q k^T scale) v of head h over the given rows.
  at::Tensor
  attend(std::int64_t t, std::int64_t h, const at::Tensor& k, const at::Tensor& v) const {
    if (k.size(0) == 0) return at::zeros({v.size(1)}, v.options());
    return at::matmul((at::matmul(k, in.q[t][h]) * in.scale).softmax(0), v);
  }

  // Means of the blocks that end at or before t: [blocks, D] of group g.
  at::Tensor means(const at::Tensor& x, std::int64_t t, std::int64_t g) const {
    std::vector<at::Tensor> rows;
    for (std::int64_t i = 0; i * shape.stride + shape.block - 1 <= t; ++i)
      rows.push_back(x.select(1, g).narrow(0, i * shape.stride, shape.block).mean(0));
    return rows.empty() ? at::empty({0, x.size(2)}, x.options()) : at::stack(rows);
  }

  std::vector<std::int64_t> select(std::int64_t t, std::int64_t g) const {
    const std::int64_t own = t / shape.select_block, ratio = shape.select_block / shape.stride;
    std::vector<double> score(static_cast<std::size_t>(own + 1), 0.0);
    const at::Tensor k = means(in.k_cmp, t, g);
    const std::int64_t per_group = kNsaHeads / kNsaGroups;
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group && k.size(0) > 0; ++h) {
      const at::Tensor p = (at::matmul(k, in.q[t][h]) * in.scale).softmax(0);
      for (std::int64_t j = 0; j <= own; ++j)
        for (std::int64_t m = 0; m < ratio; ++m)
          for (std::int64_t n = 0; n < shape.block / shape.stride; ++n)
            if (const std::int64_t i = ratio * j + m - n; i >= 0 && i < k.size(0))
              score[static_cast<std::size_t>(j)] += p[i].item<double>();
    }
    std::vector<std::int64_t> order;
    for (std::int64_t j = 0; j <= own; ++j) order.push_back(j);
    const auto rank = [&](std::int64_t j) {
      return j == 0 || j >= own - 1 ? 1e300 : score[static_cast<std::size_t>(j)];
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return rank(a) > rank(b);
    });
    if (static_cast<std::int64_t>(order.size()) > shape.select_count)
      order.resize(static_cast<std::size_t>(shape.select_count));
    std::sort(order.begin(), order.end());
    return order;
  }

  at::Tensor rows_of(const std::vector<std::int64_t>& blocks, std::int64_t t) const {
    std::vector<std::int64_t> rows;
    for (const std::int64_t j : blocks)
      for (std::int64_t c = j * shape.select_block; c < (j + 1) * shape.select_block; ++c)
        if (c <= t) rows.push_back(c);
    return at::tensor(rows, at::kLong);
  }

  at::Tensor output(std::int64_t t) const { // [H, D]
    std::vector<at::Tensor> heads;
    for (std::int64_t h = 0; h < kNsaHeads; ++h) {
      const std::int64_t g = h / (kNsaHeads / kNsaGroups);
      const at::Tensor rows = rows_of(select(t, g), t);
      const auto picked = [&](const at::Tensor& x) { return x.select(1, g).index_select(0, rows); };
      const std::int64_t first = std::max<std::int64_t>(0, t - shape.window + 1);
      const auto recent = [&](const at::Tensor& x) {
        return x.select(1, g).narrow(0, first, t + 1 - first);
      };
      const at::Tensor gate = in.gates[t][g];
      heads.push_back(gate[0] * attend(t, h, means(in.k_cmp, t, g), means(in.v_cmp, t, g)) +
                      gate[1] * attend(t, h, picked(in.k_sel), picked(in.v_sel)) +
                      gate[2] * attend(t, h, recent(in.k_win), recent(in.v_win)));
    }
    return at::stack(heads);
  }
};

inline at::Tensor
nsa_loop(NsaInputs in, const std::vector<std::int32_t>& cu, const NsaShape& shape) {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    NsaLoop loop{shape, in};
    for (at::Tensor* x : nsa_tensors(loop.in)) *x = x->narrow(0, cu[i - 1], cu[i] - cu[i - 1]);
    for (std::int64_t t = 0; t < cu[i] - cu[i - 1]; ++t) rows.push_back(loop.output(t));
  }
  return at::stack(rows);
}

} // namespace assay::testing_model
