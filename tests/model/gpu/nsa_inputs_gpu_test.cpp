// The kernels around the branches of native sparse attention on a GPU: against the tensor
// operations in fp64 on the same bf16 inputs, the same bits from run to run, and whole models
// through the row's gates.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>
#include <torch/csrc/autograd/autograd.h>

#include "model/gates/code_path.h"
#include "model/gates/gates.h"
#include "tests/model/model_fixture.h"
#include "tests/model/nsa/nsa_inputs_fixture.h"

namespace assay {
namespace nsa_inputs_gpu_test {

using namespace testing_model;
using Tensors = std::vector<at::Tensor>;

class NsaInputsGpu : public testing::TestWithParam<NsaCase> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

// Rows of places [Nc, H*d, D] by token [T, H, D], 0 where a token has no place.
at::Tensor by_token(const at::Tensor& x, const NsaLayout& layout) {
  const std::int64_t stride = layout.shape.stride;
  const at::Tensor place = layout.strided_place.to(x.device());
  return x.unflatten(1, {-1, stride})
      .transpose(1, 2)
      .flatten(0, 1)
      .index_select(0, place.clamp_min(0))
      .masked_fill(place.lt(0).view({-1, 1, 1}), 0.0);
}
at::Tensor to_places(const at::Tensor& x, const NsaLayout& layout) {
  const at::Tensor token = layout.strided_token.to(x.device());
  return x.index_select(0, token.clamp_min(0))
      .masked_fill(token.lt(0).view({-1, 1, 1}), 0.0)
      .unflatten(0, {-1, layout.shape.stride})
      .transpose(1, 2)
      .flatten(1, 2)
      .contiguous();
}

Tensors parts(const NsaProjected& p) {
  return {p.q_cmp,
          p.q_sel,
          p.q_win,
          p.mean,
          p.k_blocks,
          p.v_blocks,
          p.k_sel,
          p.k_win,
          p.v_sel,
          p.v_win};
}

struct Outcome {
  Tensors results, gradients;
};

// `grads`: of the ten parts, the first one by token.
Outcome project(const NsaCase& c, const at::Tensor& product, Tensors grads, at::Device device) {
  const NsaLayoutPtr layout = c.layout(device);
  const at::Tensor x = product.detach().clone().requires_grad_();
  const NsaProjected p = nsa_project(x, c.rotary(device), layout, c.sizes(), c.gate);
  EXPECT_EQ(p.at_places, device.is_cuda());
  if (p.at_places) grads[0] = to_places(grads[0], *layout);
  Outcome run;
  run.results = parts(p);
  run.gradients = torch::autograd::grad(run.results, {x}, grads);
  for (at::Tensor& result : run.results) result = result.detach();
  if (p.at_places) {
    const at::Tensor there = run.results[0];
    run.results[0] = by_token(there, *layout);
    EXPECT_TRUE(at::equal(to_places(run.results[0], *layout), there)) << "places without a query";
  }
  return run;
}

// The tensor form's first part has every token; places have those that see a block.
at::Tensor visible(const at::Tensor& q, const NsaCase& c) {
  const at::Tensor place = c.layout()->strided_place.to(q.device());
  return q.masked_fill(place.lt(0).view({-1, 1, 1}), 0.0);
}

TEST_P(NsaInputsGpu, PartsAndTheirGradientsEqualFp64) {
  const NsaCase& c = GetParam();
  const at::Tensor product = nsa_leaves(c)[0].to(at::kBFloat16);
  Tensors exact, half;
  const std::int64_t tokens = c.cu.back(), blocks = c.layout()->compressed_blocks;
  for (std::int64_t i = 0; i < 10; ++i) {
    const std::int64_t rows = i == 4 || i == 5 ? blocks : tokens,
                       heads = i < 3 ? c.heads : c.groups;
    const auto seed = static_cast<std::uint64_t>(20 + i);
    const at::ScalarType type = i == 3 ? at::kFloat : at::kBFloat16;
    half.push_back(seeded_normal({rows, heads, c.width}, seed).to(at::kCUDA, type));
    if (i == 0) half[0] = visible(half[0], c);
    exact.push_back(half.back().to(at::kCPU, at::kDouble));
  }
  Outcome expected = project(c, product.to(at::kDouble), exact, at::kCPU);
  const Outcome actual = project(c, product.cuda(), half, at::kCUDA),
                again = project(c, product.cuda(), half, at::kCUDA);
  expected.results[0] = visible(expected.results[0], c);
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_LE(relative_rms(actual.results[i].cpu(), expected.results[i]), i == 3 ? 1e-5 : 4e-3)
        << i;
    EXPECT_TRUE(at::equal(actual.results[i], again.results[i])) << i;
  }
  EXPECT_LE(relative_rms(actual.gradients[0].cpu(), expected.gradients[0]), 4e-3);
  EXPECT_TRUE(at::equal(actual.gradients[0], again.gradients[0]));
}

// Result and gradients of the three branches, the mean and the weights of the gates.
Tensors mix(const NsaCase& c, const Tensors& given, const at::Tensor& grad, at::Device device) {
  const NsaLayoutPtr layout = c.layout(device);
  Tensors x = given;
  if (device.is_cuda()) x[0] = to_places(x[0], *layout);
  for (at::Tensor& leaf : x) leaf = leaf.detach().clone().requires_grad_();
  const at::Tensor out =
      nsa_gated_mix({x[0], x[1], x[2]}, x[3], {x[4], x[5], x[6], x[7]}, layout, device.is_cuda());
  Tensors all = torch::autograd::grad({out}, x, {grad});
  if (device.is_cuda()) {
    const at::Tensor there = all[0];
    all[0] = by_token(there, *layout);
    EXPECT_TRUE(at::equal(to_places(all[0], *layout), there)) << "places without a query";
  }
  all.insert(all.begin(), out.detach());
  return all;
}

TEST_P(NsaInputsGpu, MixAndItsGradientsEqualFp64) {
  const NsaCase& c = GetParam();
  Tensors half, exact;
  for (std::uint64_t i = 0; i < 4; ++i)
    half.push_back(seeded_normal({c.cu.back(), i < 3 ? c.heads : c.groups, c.width}, 40 + i)
                       .to(at::kCUDA, i < 3 ? at::kBFloat16 : at::kFloat));
  half[0] = visible(half[0], c);
  const Tensors leaves = nsa_leaves(c);
  for (std::size_t i = 1; i < leaves.size(); ++i)
    half.push_back((leaves[i] * (i == 1 ? 0.2 : 1.0)).to(at::kCUDA, at::kFloat));
  half.push_back(seeded_normal(half[1].sizes(), 50).to(at::kCUDA, at::kBFloat16)); // dy
  for (const at::Tensor& x : half) exact.push_back(x.to(at::kCPU, at::kDouble));
  const at::Tensor dy = half.back(), exact_dy = exact.back();
  half.pop_back(), exact.pop_back();
  Tensors expected = mix(c, exact, exact_dy, at::kCPU);
  const Tensors actual = mix(c, half, dy, at::kCUDA), again = mix(c, half, dy, at::kCUDA);
  expected[1] = visible(expected[1], c);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relative_rms(actual[i].cpu(), expected[i]), i < 4 ? 4e-3 : 2e-5) << i;
    EXPECT_TRUE(at::equal(actual[i], again[i])) << i;
  }
}

// Shape of preset base; of tiny; groups of a head each; one document; a gate that is narrow.
INSTANTIATE_TEST_SUITE_P(
    Cases,
    NsaInputsGpu,
    testing::Values(NsaCase{{0, 2048, 2100, 4096}, {32, 16, 64, 16, 512}, 12, 2, 64, 32},
                    NsaCase{{0, 1, 18, 82, 147, 300, 301, 333}, {8, 4, 16, 4, 32}, 4, 2, 64, 16},
                    NsaCase{{0, 40, 90}, {16, 16, 16, 3, 20}, 3, 3, 64, 5},
                    NsaCase{{0, 700}, {32, 32, 64, 4, 128}, 16, 1, 64, 32}));

class NsaModelsGpu : public testing::Test {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(NsaModelsGpu, ModelsOfTwoPresetsPassTheGatesInBf16) {
  const Optimization& row = *optimizations().find("nsa_inputs");
  for (const char* preset : {"tiny", "small"}) {
    TrainConfig config;
    config.family = "nsa";
    config.preset = preset;
    config.pattern = "NN";
    config.device = Device::Cuda;
    config.precision = Precision::Bf16;
    config.norms = Norms::Fused;
    config.batch_rows = 2;
    config = value_or_throw(resolve(config));
    const auto length = static_cast<std::int32_t>(config.seq_len);
    const Batch batch = random_batch(config, 3, {1, 17, length / 2, length + 5});
    TrainConfig fused = config;
    fused.nsa_inputs = NsaInputForm::Fused;
    for (const GateResult& gate : run_gates(row, config, fused, {batch}))
      EXPECT_TRUE(gate.passed) << preset << ' ' << gate.name << ": " << gate.value << " > "
                               << gate.bound << " (" << gate.detail << ")";
    const CodePath seen = record_code_path(row, fused, {batch, batch});
    EXPECT_EQ(seen.spans.count("nsa_inputs/fused"), 1U);
    EXPECT_EQ(seen.spans.count("nsa_inputs/ops"), 0U);
  }
}

} // namespace nsa_inputs_gpu_test
} // namespace assay
