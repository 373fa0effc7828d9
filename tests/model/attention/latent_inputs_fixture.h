// Random inputs of the functions before latent attention, and their results with all gradients.
#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

#include "model/layers/attention/latent_inputs.h"
#include "model/layers/attention/rotary_forms.h"
#include "model/layers/rms_norm.h"
#include "tests/model/model_fixture.h"

namespace assay::testing_model {

struct LatentSizes {
  std::int64_t heads, plain, rope, rank;
};

// q, down, weight of the norm, up -> latent, q, k, v.
using LatentForm = std::function<std::vector<at::Tensor>(
    const std::vector<at::Tensor>& inputs, const Rotary& rotary, std::int64_t heads)>;

struct LatentSample {
  std::int64_t heads = 0;
  std::vector<at::Tensor> inputs, grads; // as a LatentForm takes them, and of its results
};

inline LatentSample latent_sample(std::int64_t tokens, const LatentSizes& s) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(11);
  const auto normal = [&](at::IntArrayRef shape, double scale = 1, double shift = 0) {
    return at::empty(shape, at::kDouble).normal_(shift, scale, generator);
  };
  const std::int64_t width = s.plain + s.rope;
  return {s.heads,
          {normal({tokens, s.heads * width}),
           normal({tokens, s.rank + s.rope}),
           normal({s.rank}, 0.3, 1),
           normal({tokens, s.heads * 2 * s.plain})},
          {normal({tokens, s.rank}),
           normal({tokens, s.heads, width}),
           normal({tokens, s.heads, width}),
           normal({tokens, s.heads, s.plain})}};
}

inline Rotary latent_rotary(const std::vector<std::int32_t>& cu,
                            const LatentSizes& shape,
                            at::Device device = at::kCPU) {
  return make_rotary(segments_of(cu, device), shape.rope);
}

// As the operators of model/families/latent_attention.cpp, with a given rotation.
inline LatentForm latent_operators(RotaryForm rotate) {
  return [rotate](const std::vector<at::Tensor>& x, const Rotary& rotary, std::int64_t heads) {
    const std::int64_t rank = x[2].size(0), rope = x[1].size(1) - rank;
    const at::Tensor q = x[0].unflatten(1, {heads, -1}), up = x[3].unflatten(1, {heads, -1});
    const std::int64_t plain = q.size(2) - rope;
    const at::Tensor q_pe = rotate(q.narrow(2, plain, rope), rotary),
                     k_pe = rotate(x[1].narrow(1, rank, rope).unsqueeze(1), rotary);
    return std::vector<at::Tensor>{
        rms_norm(x[1].narrow(1, 0, rank), x[2]),
        at::cat({q.narrow(2, 0, plain), q_pe}, 2),
        at::cat({up.narrow(2, 0, plain), k_pe.expand({-1, heads, -1})}, 2),
        up.narrow(2, plain, plain)};
  };
}

// On a GPU the kernels overwrite q, so they get a copy.
inline std::vector<at::Tensor>
latent_fused(const std::vector<at::Tensor>& x, const Rotary& rotary, std::int64_t heads) {
  const NormedLatent normed = norm_latent(x[1], x[2]);
  const LatentHeads out = latent_heads(x[0].clone(), x[3], normed.key, rotary, heads);
  return {normed.latent, out.q, out.k, out.v};
}

inline const char* const kLatentNames[] = {
    "latent", "q", "k", "v", "d q", "d down", "d weight", "d up"};

// The four results, then the four gradients.
inline std::vector<at::Tensor>
latent_results(const LatentForm& form, const LatentSample& s, const Rotary& rotary) {
  std::vector<at::Tensor> leaves, seeds;
  for (const at::Tensor& x : s.inputs) leaves.push_back(x.detach().clone().requires_grad_());
  const std::vector<at::Tensor> out = form(leaves, rotary, s.heads);
  for (std::size_t i = 0; i < out.size(); ++i) seeds.push_back(s.grads[i].to(out[i].scalar_type()));
  torch::autograd::backward({out.begin(), out.end()}, {seeds.begin(), seeds.end()});
  std::vector<at::Tensor> all;
  for (const at::Tensor& x : out) all.push_back(x.detach());
  for (const at::Tensor& x : leaves) all.push_back(x.grad());
  return all;
}

} // namespace assay::testing_model
