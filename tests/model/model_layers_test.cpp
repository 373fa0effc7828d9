// Short convolution, norms, rotary angles, attention paths and latent attention against plain
// references.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/families/latent_attention.h"
#include "model/gates/gates.h"
#include "model/layers/attention/attention.h"
#include "model/layers/delta_rule/short_conv.h"
#include "model/layers/rms_norm.h"
#include "tests/model/attention/attention_fixture.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_layers_test {

using testing_model::make_segments;
using testing_model::plain_attention;
using testing_model::small_config;

const std::vector<std::int32_t> kRagged{0, 1, 3, 20, 48};

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed, at::ScalarType type = at::kDouble) {
  return at::empty(shape, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed))
      .to(type);
}

at::Tensor
plain_conv(const at::Tensor& x, const at::Tensor& weight, const std::vector<std::int32_t>& cu) {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 1; i < cu.size(); ++i) {
    for (std::int64_t t = cu[i - 1]; t < cu[i]; ++t) {
      at::Tensor sum = at::zeros({x.size(1)}, x.options());
      for (std::int64_t j = 0; j < weight.size(1) && t - j >= cu[i - 1]; ++j)
        sum = sum + weight.select(1, j) * x[t - j];
      rows.push_back(at::silu(sum));
    }
  }
  return at::stack(rows);
}

TEST(ShortConv, EqualsTheLoopForwardAndBackward) {
  const Segments segments = make_segments(kRagged, 2, 16);
  at::Tensor x = normal({48, 6}, 1).requires_grad_(), w = normal({6, 4}, 2).requires_grad_();
  const at::Tensor weights = normal({48, 6}, 3);
  const at::Tensor expected = plain_conv(x, w, kRagged);
  (expected * weights).sum().backward();
  const at::Tensor dx = x.grad().clone(), dw = w.grad().clone();
  x.mutable_grad().reset(), w.mutable_grad().reset();
  const at::Tensor actual = short_conv(x, w, segments.chunks->taps);
  (actual * weights).sum().backward();
  EXPECT_LE(relative_rms(actual, expected), 1e-12);
  EXPECT_LE(relative_rms(x.grad(), dx), 1e-12);
  EXPECT_LE(relative_rms(w.grad(), dw), 1e-12);
}

TEST(Norms, EqualTheirDefinitions) {
  at::Tensor x = normal({5, 3, 8}, 4).requires_grad_();
  at::Tensor weight = normal({8}, 5).requires_grad_();
  const at::Tensor out_weights = normal({5, 3, 8}, 6);
  const at::Tensor plain = x * (x * x).sum(-1, true).add(kNormEps).rsqrt();
  (plain * out_weights).sum().backward();
  const at::Tensor dx = x.grad().clone();
  x.mutable_grad().reset();
  const at::Tensor actual = l2_norm(x);
  (actual * out_weights).sum().backward();
  EXPECT_LE(relative_rms(actual, plain), 1e-12);
  EXPECT_LE(relative_rms(x.grad(), dx), 1e-12);
  const at::Tensor rms = x * (x * x).mean(-1, true).add(kNormEps).rsqrt() * weight;
  x.mutable_grad().reset();
  (rms * out_weights).sum().backward();
  const at::Tensor rms_dx = x.grad().clone(), rms_dw = weight.grad().clone();
  x.mutable_grad().reset(), weight.mutable_grad().reset();
  const at::Tensor fused = rms_norm(x, weight);
  (fused * out_weights).sum().backward();
  EXPECT_LE(relative_rms(fused, rms), 1e-12);
  EXPECT_LE(relative_rms(x.grad(), rms_dx), 1e-12);
  EXPECT_LE(relative_rms(weight.grad(), rms_dw), 1e-12);
}

TEST(Rope, RotatesInterleavedPairsAndRestartsWithTheSegment) {
  const Segments segments = make_segments({0, 3, 5}, 2, 16);
  const at::Tensor x = normal({5, 1, 8}, 7);
  const at::Tensor y = apply_rope(x, segments.rotary->cos, segments.rotary->sin);
  const std::int64_t positions[] = {0, 1, 2, 0, 1};
  for (std::int64_t t = 0; t < 5; ++t) {
    for (std::int64_t i = 0; i < 4; ++i) {
      const double angle =
          static_cast<double>(positions[t]) * std::pow(10000.0, -static_cast<double>(i) / 4.0);
      const double a = x[t][0][2 * i].item<double>(), b = x[t][0][2 * i + 1].item<double>();
      EXPECT_NEAR(y[t][0][2 * i].item<double>(), a * std::cos(angle) - b * std::sin(angle), 1e-6);
      EXPECT_NEAR(
          y[t][0][2 * i + 1].item<double>(), a * std::sin(angle) + b * std::cos(angle), 1e-6);
    }
  }
}

class AttentionPath : public testing::TestWithParam<Attention> {};

TEST_P(AttentionPath, EqualsPlainSoftmaxForwardAndBackward) {
  const std::vector<std::int32_t> cu =
      GetParam() == Attention::Varlen ? kRagged : std::vector<std::int32_t>{0, 24, 48};
  const Segments segments = make_segments(cu, 2, 16);
  at::Tensor q = normal({48, 2, 12}, 8).requires_grad_(),
             k = normal({48, 2, 12}, 9).requires_grad_(),
             v = normal({48, 2, 8}, 10).requires_grad_();
  const at::Tensor weights = normal({48, 2, 8}, 11);
  const at::Tensor expected = plain_attention(q, k, v, cu, 0.3);
  (expected * weights).sum().backward();
  std::vector<at::Tensor> expected_grads;
  for (at::Tensor* x : {&q, &k, &v}) {
    expected_grads.push_back(x->grad().clone());
    x->mutable_grad().reset();
  }
  const at::Tensor actual = causal_attention(q, k, v, segments, GetParam(), 0.3);
  (actual * weights).sum().backward();
  EXPECT_LE(relative_rms(actual, expected), 1e-10);
  EXPECT_LE(relative_rms(q.grad(), expected_grads[0]), 1e-10);
  EXPECT_LE(relative_rms(k.grad(), expected_grads[1]), 1e-10);
  EXPECT_LE(relative_rms(v.grad(), expected_grads[2]), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(All,
                         AttentionPath,
                         testing::Values(Attention::MaskDense,
                                         Attention::Packed,
                                         Attention::Varlen));

// Latent attention with the expansion absorbed into query and output, so that only the latent and
// the rotary key are attended: the form for decoding, with 3 times the score work of training.
at::Tensor absorbed_attention(const std::vector<Parameter>& parameters,
                              const at::Tensor& x,
                              const Segments& segments,
                              const TrainConfig& config) {
  const auto weight = [&](const std::string& name) {
    return std::find_if(parameters.begin(),
                        parameters.end(),
                        [&](const Parameter& parameter) { return parameter.name == name; })
        ->tensor;
  };
  const std::int64_t tokens = x.size(0), heads = config.heads, width = config.head_dim;
  const at::Tensor q =
      at::linear(x, weight("q_proj")).view({tokens, heads, width + config.rope_dim});
  const at::Tensor down = at::linear(x, weight("kv_down"));
  const at::Tensor latent = rms_norm(down.narrow(1, 0, config.kv_rank), weight("kv_norm"));
  const at::Tensor &cos = segments.rotary->cos, &sin = segments.rotary->sin;
  const at::Tensor q_pe = apply_rope(q.narrow(2, width, config.rope_dim), cos, sin);
  const at::Tensor k_pe =
      apply_rope(down.narrow(1, config.kv_rank, config.rope_dim).unsqueeze(1), cos, sin);
  const at::Tensor up = weight("kv_up").view({heads, 2 * width, config.kv_rank});
  const at::Tensor q_latent =
      at::bmm(q.narrow(2, 0, width).transpose(0, 1), up.narrow(1, 0, width)); // [H, T, kv_rank]
  const at::Tensor attended =                                                 // [T, H, kv_rank]
      plain_attention(at::cat({q_latent.transpose(0, 1), q_pe}, 2),
                      at::cat({latent.unsqueeze(1), k_pe}, 2).expand({-1, heads, -1}),
                      latent.unsqueeze(1).expand({-1, heads, -1}),
                      segments.cu_host,
                      1 / std::sqrt(static_cast<double>(width + config.rope_dim)));
  const at::Tensor out =
      at::bmm(attended.transpose(0, 1), up.narrow(1, width, width).transpose(1, 2));
  return at::linear(out.transpose(0, 1).reshape({tokens, heads * width}), weight("out_proj"));
}

TEST(LatentAttention, EqualsItsAbsorbedForm) {
  const TrainConfig config = small_config();
  ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(12), at::kCPU);
  const LatentAttention layer(make, "", config);
  const std::vector<Parameter> parameters = make.take();
  for (const Parameter& parameter : parameters)
    parameter.tensor.set_data(parameter.tensor.detach().to(at::kDouble) * 8);
  const Segments segments = make_segments(kRagged, 2, 16);
  const at::Tensor x = normal({48, config.d_model}, 13);
  const at::NoGradGuard no_grad;
  EXPECT_LE(relative_rms(layer.forward(x, segments, Attention::Varlen),
                         absorbed_attention(parameters, x, segments, config)),
            1e-10);
}

// Of three blocks and a rest: the same values on one core and on two, none of them a copy of
// another block, with the mean and deviation that were asked for.
TEST(InitialValues, OfALargeMatrixDoNotDependOnTheCores) {
  const auto drawn = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(5), at::kCPU);
    make.normal("w", {1700, 2000}, 0.02);
    at::set_num_threads(before);
    return make.take().front().tensor.detach().view(-1);
  };
  const at::Tensor one = drawn(1), two = drawn(2);
  EXPECT_TRUE(one.equal(two));
  const std::int64_t block = 1 << 20;
  EXPECT_FALSE(one.slice(0, 0, block).equal(one.slice(0, block, 2 * block)));
  EXPECT_NEAR(one.mean().item<double>(), 0, 5 * 0.02 / std::sqrt(1700 * 2000));
  EXPECT_NEAR(one.std().item<double>(), 0.02, 1e-4);
  EXPECT_NEAR(one.slice(0, 3 * block, one.numel()).std().item<double>(), 0.02, 3e-4);
}

} // namespace model_layers_test
} // namespace assay
