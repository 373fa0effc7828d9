// Random inputs of the functions before the delta rule, and their results with all gradients.
#pragma once

#include <vector>

#include "model/layers/delta_rule/delta_inputs.h"
#include "tests/model/model_fixture.h"

namespace assay::testing_model {

using DeltaInputForm = DeltaRuleInputs (*)(const at::Tensor&,
                                           const DeltaInputWeights&,
                                           const Segments&);

// projected, conv, a_log, dt_bias; then what is given as the gradients of q, k, v, g, beta, gate.
struct DeltaInputSample {
  std::vector<at::Tensor> inputs, grads;
};

inline DeltaInputSample
delta_input_sample(std::int64_t tokens, std::int64_t heads, std::int64_t width) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const auto normal = [&](at::IntArrayRef shape, double scale = 1, double shift = 0) {
    return at::empty(shape, at::kDouble).normal_(shift, scale, generator);
  };
  const std::int64_t inner = heads * width;
  DeltaInputSample s;
  s.inputs = {normal({tokens, 4 * inner + 2 * heads}),
              normal({3 * inner, 4}, 0.5),
              normal({heads}, 0.5, 1),
              normal({heads}, 1, -1)};
  for (int i = 0; i < 6; ++i)
    s.grads.push_back(i == 3 || i == 4 ? normal({tokens, heads}) : normal({tokens, heads, width}));
  return s;
}

inline Segments delta_input_segments(std::vector<std::int32_t> cu, at::Device device) {
  TrainConfig config = small_config();
  Segments segments = segments_of(std::move(cu), device);
  segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  return segments;
}

inline std::vector<at::Tensor> as_list(const DeltaRuleInputs& x) {
  return {x.q, x.k, x.v, x.g, x.beta, x.gate};
}

inline const char* const kDeltaInputNames[] = {
    "q", "k", "v", "g", "beta", "gate", "d projected", "d conv", "d a_log", "d dt_bias"};

// The six results, then the four gradients.
inline std::vector<at::Tensor>
delta_input_results(DeltaInputForm form, const DeltaInputSample& s, const Segments& segments) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& x : s.inputs) leaves.push_back(x.detach().clone().requires_grad_());
  const std::vector<at::Tensor> out =
      as_list(form(leaves[0], {leaves[1], leaves[2], leaves[3]}, segments));
  at::Tensor total;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const at::Tensor part = (out[i] * s.grads[i].to(out[i].scalar_type())).to(at::kDouble).sum();
    total = total.defined() ? total + part : part;
  }
  total.backward();
  std::vector<at::Tensor> all;
  for (const at::Tensor& x : out) all.push_back(x.detach());
  for (const at::Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

} // namespace assay::testing_model
