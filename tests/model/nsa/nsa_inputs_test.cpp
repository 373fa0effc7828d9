// nsa_inputs = fused in tensor operations against the operators, in fp64.
#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "model/gates/gates.h"
#include "tests/model/nsa/nsa_inputs_fixture.h"

namespace assay {
namespace nsa_inputs_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

const std::vector<NsaCase> kCases{{{0, 1, 3, 18, 82, 147, 150, 250}, {8, 4, 16, 5, 12}, 4, 2, 6, 5},
                                  {{0, 5, 90, 131}, {16, 4, 8, 4, 9}, 3, 3, 4, 7},
                                  {{0, 40}, {8, 8, 8, 3, 5}, 2, 1, 8, 3}};

at::Tensor fused(const NsaCase& c, const Tensors& x) {
  return nsa_fused_attention(
      x[0], c.rotary(), nsa_gate(x), c.layout(), c.sizes(), c.scale(), NsaRanges::Direct);
}

// The result and the gradients of all leaves.
template <class Form> Tensors results(const Form& form, const NsaCase& c) {
  Tensors x = nsa_leaves(c);
  for (at::Tensor& leaf : x) leaf.requires_grad_();
  const at::Tensor out = form(c, x);
  Tensors all = torch::autograd::grad({out}, x, {seeded_normal(out.sizes(), 9)});
  all.insert(all.begin(), out.detach());
  return all;
}

TEST(NsaFusedInputs, EqualTheOperatorsInDouble) {
  const char* names[] = {"out", "product", "gate_in", "gate_in_bias", "gate_out", "gate_out_bias"};
  for (const NsaCase& c : kCases) {
    const Tensors expected = results(nsa_by_operators, c), actual = results(fused, c);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LE(relative_rms(actual[i], expected[i]), 1e-13)
          << names[i] << ", " << c.heads << " heads";
  }
}

TEST(NsaFusedInputs, KeepTheTypeOfTheProduct) {
  const NsaCase& c = kCases.front();
  Tensors x = nsa_leaves(c);
  const at::Tensor exact = fused(c, x);
  x[0] = x[0].to(at::kBFloat16);
  for (std::size_t i = 1; i < x.size(); ++i) x[i] = x[i].to(at::kFloat);
  const at::Tensor half = fused(c, x);
  EXPECT_EQ(half.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_rms(half, exact), 0.2); // a near choice of blocks may turn
}

} // namespace nsa_inputs_test
} // namespace assay
