// The kernels of the gated delta rule on a GPU: against the recurrence in fp64 on the same bf16
// inputs, the same bits from run to run, and no bit changed by another segment.
#include <gtest/gtest.h>

#include <ATen/cuda/CUDAContext.h>

#include "model/gates/gates.h"
#include "model/layers/delta_rule/gated_delta_rule.h"
#include "model/layout/segments.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace delta_rule_gpu_test {

struct Case {
  std::vector<std::int32_t> cu;
  std::int64_t heads, width;
  double decay;
  std::int64_t group = 1; // value heads of a key head
};

struct Tensors {
  at::Tensor q, k, v, g, beta, d_out;
};

Tensors inputs(const Case& c, at::Device device) {
  at::manual_seed(3);
  const auto normal = [&](at::IntArrayRef shape) { return at::randn(shape); };
  const auto rounded = [&](const at::Tensor& x) { return x.to(at::kBFloat16).to(device); };
  const std::int64_t tokens = c.cu.back();
  const auto unit = [&] {
    const at::Tensor x = normal({tokens, c.heads / c.group, c.width});
    return rounded(x / x.norm(2, {2}, true));
  };
  return {unit(),
          unit(),
          rounded(normal({tokens, c.heads, c.width})),
          (at::softplus(normal({tokens, c.heads})) * -c.decay).to(device),
          normal({tokens, c.heads}).sigmoid().to(device),
          rounded(normal({tokens, c.heads, c.width}))};
}

Segments segments_for(const Case& c, at::Device device) {
  TrainConfig config;
  config.heads = c.heads;
  config.head_dim = c.width;
  config.chunk_size = 64;
  config.conv_kernel = 4;
  config.rope_dim = 8;
  Segments segments = segments_of(c.cu, device);
  segments.chunks = std::make_shared<const ChunkLayout>(make_chunk_layout(segments, config));
  return segments;
}

std::vector<at::Tensor> results(DeltaRule rule, const Tensors& in, const Segments& segments) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor* x : {&in.q, &in.k, &in.v, &in.g, &in.beta})
    leaves.push_back(x->detach().clone().requires_grad_());
  const at::Tensor out = rule(leaves[0], leaves[1], leaves[2], leaves[3], leaves[4], segments);
  out.backward(in.d_out.to(out.scalar_type()));
  std::vector<at::Tensor> all{out.detach()};
  for (const at::Tensor& leaf : leaves) all.push_back(leaf.grad());
  return all;
}

class DeltaRuleGpu : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(DeltaRuleGpu, EqualsTheRecurrenceInDouble) {
  const Tensors in = inputs(GetParam(), at::kCUDA);
  const auto wide = [](const at::Tensor& x) { return x.to(at::kCPU, at::kDouble); };
  const Tensors exact{
      wide(in.q), wide(in.k), wide(in.v), wide(in.g), wide(in.beta), wide(in.d_out)};
  const auto expected = results(gated_delta_rule_naive, exact, segments_for(GetParam(), at::kCPU));
  const auto actual = results(gated_delta_rule_fused, in, segments_for(GetParam(), at::kCUDA));
  const std::pair<const char*, double> limits[] = {
      {"out", 5e-3}, {"q", 8e-3}, {"k", 8e-3}, {"v", 8e-3}, {"g", 2e-2}, {"beta", 2e-2}};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LE(relative_rms(wide(actual[i]), expected[i]), limits[i].second) << limits[i].first;
}

TEST_P(DeltaRuleGpu, RepeatsItselfBitForBit) {
  const Tensors in = inputs(GetParam(), at::kCUDA);
  const Segments segments = segments_for(GetParam(), at::kCUDA);
  const auto first = results(gated_delta_rule_fused, in, segments);
  const auto again = results(gated_delta_rule_fused, in, segments);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], again[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Cases,
                         DeltaRuleGpu,
                         testing::Values(Case{{0, 1, 3, 18, 81, 145, 210, 340, 597}, 3, 64, 0.3},
                                         Case{{0, 64}, 1, 64, 0.001},
                                         Case{{0, 130, 131, 400}, 2, 32, 1.0},
                                         Case{{0, 130, 137, 437}, 2, 128, 0.05},
                                         Case{{0, 130, 137, 437}, 6, 128, 0.05, 3},
                                         Case{{0, 70, 200}, 4, 64, 0.3, 2},
                                         Case{{0, 2048, 4096}, 12, 64, 0.05},
                                         Case{{0, 3500}, 1, 64, 0.01}, // in pieces
                                         Case{{0, 3100}, 1, 128, 0.01},
                                         Case{{0, 3100}, 2, 32, 0.01, 2}));

// Shapes that fill the board, many times: a race shows itself seldom.
TEST(DeltaRuleGpuShapes, RepeatThemselvesBitForBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const auto rows = [](std::int32_t count, std::int32_t length) {
    std::vector<std::int32_t> cu;
    for (std::int32_t row = 0; row <= count; ++row) cu.push_back(row * length);
    return cu;
  };
  for (const Case& c : {Case{rows(6, 2048), 12, 64, 0.05},
                        Case{rows(16, 2048), 12, 64, 0.05},
                        Case{rows(1, 8192), 32, 128, 0.05, 2},
                        Case{rows(1, 32768), 12, 64, 0.05},
                        Case{rows(4, 2048), 8, 32, 0.05}}) {
    const Tensors in = inputs(c, at::kCUDA);
    const Segments segments = segments_for(c, at::kCUDA);
    const auto first = results(gated_delta_rule_fused, in, segments);
    for (int repetition = 0; repetition < 100; ++repetition) {
      const auto again = results(gated_delta_rule_fused, in, segments);
      for (std::size_t i = 0; i < first.size(); ++i)
        ASSERT_TRUE(at::equal(first[i], again[i]))
            << "width " << c.width << ", result " << i << ", repetition " << repetition;
    }
  }
}

TEST(DeltaRuleGpuSegments, AnotherSegmentChangesNoBit) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Case c{{0, 100, 230}, 2, 64, 0.3};
  const Segments segments = segments_for(c, at::kCUDA);
  Tensors in = inputs(c, at::kCUDA);
  const auto before = results(gated_delta_rule_fused, in, segments);
  in.v.narrow(0, 100, 130).fill_(7);
  in.d_out.narrow(0, 100, 130).fill_(-5);
  const auto after = results(gated_delta_rule_fused, in, segments);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(before[i].narrow(0, 0, 100), after[i].narrow(0, 0, 100))) << i;
    EXPECT_FALSE(at::equal(before[i], after[i])) << i;
  }
}

TEST(DeltaRuleGpuSegments, ALaterTokenChangesNoBitOfAnEarlierOutput) {
  if (!at::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  const Case c{{0, 230}, 2, 64, 0.3};
  const Segments segments = segments_for(c, at::kCUDA);
  const Tensors in = inputs(c, at::kCUDA);
  const at::NoGradGuard no_grad;
  const auto out = [&](const Tensors& x) {
    return gated_delta_rule_fused(x.q, x.k, x.v, x.g, x.beta, segments);
  };
  const at::Tensor before = out(in);
  for (const std::int64_t token : {1, 63, 64, 127, 128, 197}) {
    const auto changed = [&](const at::Tensor& x) {
      const at::Tensor other = x.clone();
      other.narrow(0, token, 230 - token).mul_(0.7);
      return other;
    };
    const at::Tensor after = out(
        {changed(in.q), changed(in.k), changed(in.v), changed(in.g), changed(in.beta), in.d_out});
    EXPECT_TRUE(at::equal(before.narrow(0, 0, token), after.narrow(0, 0, token))) << token;
    EXPECT_FALSE(at::equal(before[token], after[token])) << token;
  }
}

} // namespace delta_rule_gpu_test
} // namespace assay
