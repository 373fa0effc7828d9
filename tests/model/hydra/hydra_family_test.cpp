// The family `hydra`: attention against a loop over numbers, which tokens its feed-forwards take,
// gradients by central differences, isolation, learning.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/families/compressed_attention.h"
#include "model/families/routing/token_routing.h"
#include "model/layers/attention/token_conv.h"
#include "model/training/trainer.h"
#include "tests/model/central_differences.h"
#include "tests/model/model_fixture.h"
#include "tests/model/row_levels.h"

namespace assay {
namespace hydra_family_test {

using namespace testing_model;

constexpr Routing kForms[] = {Routing::Masked, Routing::Compacted, Routing::Static};

at::Tensor normal(at::IntArrayRef shape, std::uint64_t seed) {
  return at::empty(shape, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

Segments hydra_segments(std::vector<std::int32_t> cu, std::int64_t rotary) {
  Segments segments = segments_of(std::move(cu), at::kCPU);
  segments.positions = segment_positions(segments);
  segments.rotary = std::make_shared<const Rotary>(make_rotary(segments, rotary));
  return segments;
}

TEST(HydraConfig, PresetsResolveAndCountTheirParameters) {
  for (const auto& [pattern, recursions, percent] :
       {std::tuple("CCCC", 2, 75), std::tuple("CC", 3, 50), std::tuple("CCC", 1, 100)}) {
    TrainConfig config;
    config.family = "hydra";
    config.pattern = pattern;
    config.recursions = recursions;
    config.mod_percent = percent;
    config = value_or_throw(resolve(config));
    std::int64_t parameters = 0;
    const Trainer trainer(config);
    for (const Parameter& p : trainer.parameters()) parameters += p.tensor.numel();
    EXPECT_EQ(parameters, model_size(config).parameters) << pattern;
  }
  TrainConfig base;
  base.family = "hydra", base.preset = "base";
  EXPECT_EQ(model_size(value_or_throw(resolve(base))).parameters, 99'360'016);
}

TEST(HydraConfig, ImpossibleShapesNameTheKey) {
  const auto message = [](const char* key, int value) {
    TrainConfig config;
    config.family = "hydra";
    EXPECT_TRUE(set_key(config, key, nlohmann::json(value)));
    const Result<TrainConfig> result = resolve(config);
    EXPECT_FALSE(result) << key;
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(message("kv_groups", 3).find("'kv_groups' (3) must divide 'heads' (4)"),
            std::string::npos);
  EXPECT_NE(
      message("rope_dim", 8).find("'rope_dim' (8) must equal 'head_dim' (16) in family hydra"),
      std::string::npos);
  EXPECT_NE(message("nsa_block", 8).find("belongs to family nsa"), std::string::npos);
}

// Both forms against sums over numbers, also where segments are shorter than the taps.
TEST(HydraConv, BothFormsAreTheSumOverTokensBefore) {
  const Segments segments = hydra_segments({0, 1, 3, 10}, 4);
  const at::Tensor x = normal({10, 2, 3}, 1), weight = normal({2, 9, 5}, 2);
  at::Tensor expected = at::zeros({10, 2, 5}, at::kDouble);
  for (std::int64_t t = 0; t < 10; ++t)
    for (std::int64_t j = 0; j <= std::min<std::int64_t>(2, segments.positions[t].item<int>()); ++j)
      for (std::int64_t h = 0; h < 2; ++h)
        expected[t][h] += at::matmul(x[t - j][h], weight[h].narrow(0, 3 * j, 3));
  for (const QkConv form : {QkConv::Taps, QkConv::Joined})
    EXPECT_LE(relative_rms(token_conv(x, weight, segments.positions, form), expected), 1e-14);
}

// A layer in fp64 against the equations of docs/hydra.md, a token and a head at a time.
TEST(HydraAttention, IsTheLoopOverNumbers) {
  const TrainConfig config = small_hydra();
  ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(4), at::kCPU);
  CompressedAttention layer(make, "", config);
  std::map<std::string, at::Tensor> w;
  const at::NoGradGuard no_grad;
  for (const Parameter& p : make.take()) {
    p.tensor.set_data(p.tensor.to(at::kDouble) * (p.tensor.dim() > 1 ? 10 : 1));
    w[p.name] = p.tensor;
  }
  const Segments segments = hydra_segments({0, 5, 6, 14}, config.head_dim);
  const at::Tensor x = normal({14, config.d_model}, 5);
  const std::int64_t heads = 4, groups = 2, d = 8;
  const at::Tensor in = at::matmul(x, w["qkv_proj"].t());
  const at::Tensor q = in.narrow(1, 0, heads * d).view({14, heads, d}),
                   k = in.narrow(1, heads * d, groups * d).view({14, groups, d}),
                   v = in.narrow(1, (heads + groups) * d, groups * d);
  const auto convolved = [&](const at::Tensor& one, const std::string& name) {
    const std::int64_t count = one.size(1);
    at::Tensor inside = at::zeros_like(one), all = at::zeros_like(one);
    for (std::int64_t t = 0; t < 14; ++t)
      for (std::int64_t j = 0; j <= std::min(2, segments.positions[t].item<int>()); ++j)
        for (std::int64_t h = 0; h < count; ++h)
          inside[t][h] += at::matmul(one[t - j][h], w[name + "_heads"][h].narrow(0, j * d, d));
    for (std::int64_t t = 0; t < 14; ++t)
      for (std::int64_t j = 0; j <= std::min(2, segments.positions[t].item<int>()); ++j)
        all[t] +=
            at::matmul(inside[t - j].flatten(), w[name][0].narrow(0, j * count * d, count * d))
                .view({count, d});
    return all;
  };
  const auto unit = [](const at::Tensor& one) {
    return one / (one.square().sum(-1, true) + 1e-6).sqrt();
  };
  const auto turned = [&](const at::Tensor& one) { // pairs by the angle of their place
    at::Tensor out = at::zeros_like(one);
    for (std::int64_t t = 0; t < 14; ++t)
      for (std::int64_t i = 0; i < d / 2; ++i) {
        const double angle = segments.positions[t].item<double>() *
                             std::pow(10000.0, -2.0 * static_cast<double>(i) / d),
                     c = static_cast<float>(std::cos(angle)),
                     s = static_cast<float>(std::sin(angle));
        for (std::int64_t h = 0; h < one.size(1); ++h) {
          const at::Tensor a = one[t][h][2 * i], b = one[t][h][2 * i + 1];
          out[t][h][2 * i] = a * c - b * s;
          out[t][h][2 * i + 1] = a * s + b * c;
        }
      }
    return out;
  };
  const at::Tensor query = turned(unit(convolved(q, "q_conv") + 0.5 * k.mean(1, true))),
                   key = turned(unit(convolved(k, "k_conv") + 0.5 * q.mean(1, true)) *
                                w["key_temperature"]);
  at::Tensor value = v.clone();
  for (std::int64_t t = 0; t < 14; ++t)
    for (std::int64_t c = groups * d / 2; c < groups * d; ++c)
      value[t][c] =
          segments.positions[t].item<int>() > 0 ? v[t - 1][c] : at::zeros({}, at::kDouble);
  value = value.view({14, groups, d});
  at::Tensor out = at::zeros({14, heads, d}, at::kDouble);
  for (std::int64_t t = 0; t < 14; ++t) {
    const std::int64_t begin = t - segments.positions[t].item<std::int64_t>(), n = t + 1 - begin;
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t g = h / (heads / groups);
      const at::Tensor scores =
          at::mv(key.narrow(0, begin, n).select(1, g), query[t][h]) / std::sqrt(8.0);
      out[t][h] = at::mv(value.narrow(0, begin, n).select(1, g).t(), scores.softmax(0));
    }
  }
  const at::Tensor expected = at::matmul(out.flatten(1), w["out_proj"].t());
  EXPECT_LE(relative_rms(layer.forward(x, segments, Attention::Varlen), expected), 1e-10);
}

// ceil(share n) of each segment, the largest; of equal ones the first.
TEST(HydraRouting, TakesTheTopOfEachSegment) {
  const Segments segments = hydra_segments({0, 1, 5, 8}, 4);
  const at::Tensor scores = at::tensor({-9., 1., 4., 1., 3., 7., 7., 7.}, at::kDouble);
  const auto taken = [&](double share) {
    const at::Tensor one = top_of_segments(scores, share, segments);
    std::string text;
    for (std::int64_t t = 0; t < 8; ++t) text += one[t].item<bool>() ? '1' : '0';
    return text;
  };
  EXPECT_EQ(taken(0.75), "11101111");
  EXPECT_EQ(taken(0.5), "10101110");
  EXPECT_EQ(taken(0.01), "10100100");
  EXPECT_EQ(taken(1), "11111111");
}

// A pass takes the tokens whose depth exceeds its number less one, with what they exceed it by, at
// most 1; a token that no pass takes more keeps its value.
TEST(HydraRouting, DepthWeighsAndEndsThePasses) {
  TrainConfig config = small_hydra();
  config.d_model = 1;
  for (const Routing form : kForms) {
    config.routing = form;
    ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(4), at::kCPU);
    const TokenRouting routing(make, "", 0, config);
    const Segments segments = hydra_segments({0, 4}, 4);
    const at::Tensor rows = at::ones({4, 1}, at::kDouble);
    const at::Tensor depths = at::tensor({0.25, 1., 1.5, 2.}, at::kDouble);
    std::int64_t computed = 0;
    const auto run = [&](std::int64_t pass) {
      return routing
          .run(rows,
               depths,
               pass,
               segments,
               [&](const at::Tensor& given, const at::Tensor& end) {
                 const std::int64_t wanted = end.defined() ? end.item<int>() : given.size(0);
                 computed += wanted;
                 const at::Tensor y = given * 10;
                 y.narrow(0, wanted, given.size(0) - wanted).fill_(NAN); // nobody reads it
                 return y;
               })
          .flatten();
    };
    EXPECT_TRUE(at::equal(run(0), at::tensor({10., 10., 10., 10.}, at::kDouble)));
    EXPECT_TRUE(at::equal(run(1), at::tensor({2.5, 10., 10., 10.}, at::kDouble)));
    EXPECT_TRUE(at::equal(run(2), at::tensor({0., 0., 5., 10.}, at::kDouble)));
    EXPECT_EQ(computed, form == Routing::Masked ? 12 : 10);
  }
}

TEST(HydraAttention, GradientsAreCentralDifferences) {
  const TrainConfig config = small_hydra();
  ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(4), at::kCPU);
  CompressedAttention layer(make, "", config);
  const std::vector<Parameter> parameters = in_doubles(make.take(), 5);
  const Segments segments = hydra_segments({0, 5, 6, 14}, config.head_dim);
  const at::Tensor x = normal({14, config.d_model}, 5), by = normal({14, config.d_model}, 6);
  expect_gradients(parameters,
                   [&] { return (layer.forward(x, segments, Attention::Varlen) * by).sum(); });
}

// The routers learn from the loss: through weights, not through the choice.
TEST(HydraRouting, GradientsAreCentralDifferences) {
  TrainConfig config = small_hydra();
  for (const Routing form : kForms) {
    config.routing = form;
    ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(4), at::kCPU);
    const TokenRouting routing(make, "", 1, config);
    const std::vector<Parameter> parameters = in_doubles(make.take(), 20);
    ASSERT_EQ(parameters.size(), 3U);
    const Segments segments = hydra_segments({0, 5, 6, 14}, config.head_dim);
    const at::Tensor rows = normal({14, config.d_model}, 5), by = normal({14, config.d_model}, 6);
    expect_gradients(parameters, [&] {
      const at::Tensor depths = routing.depths(rows);
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (std::int64_t pass = 0; pass < routing.passes(); ++pass)
        sum =
            sum +
            (routing.run(rows,
                         depths,
                         pass,
                         segments,
                         [](const at::Tensor& given, const at::Tensor&) { return given.tanh(); }) *
             by)
                .sum();
      return sum;
    });
  }
}

// With c = 1 and one pass there is no router, and the model is the dense one.
TEST(Hydra, WithoutRoutingAllFormsAreTheDenseModel) {
  TrainConfig config = small_hydra();
  config.recursions = 1, config.mod_percent = 100;
  Trainer dense(config);
  for (const Parameter& p : dense.parameters())
    EXPECT_EQ(p.name.find("router"), std::string::npos) << p.name;
  const Batch batch = ragged_batch(config);
  const at::Tensor expected = dense.logits(batch);
  for (const Routing form : kForms) {
    config.routing = form;
    EXPECT_TRUE(at::equal(Trainer(config).logits(batch), expected));
  }
}

TEST(Hydra, AllFormsOfRoutingAreOneFunction) {
  const TrainConfig config = small_hydra();
  Trainer masked(config);
  const Batch batch = ragged_batch(config);
  const at::Tensor logits = masked.logits(batch);
  const auto a = masked.gradients(batch);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_GT(a[i].abs().max().item<double>(), 0) << masked.parameters()[i].name;
  for (const Routing form : {Routing::Compacted, Routing::Static}) {
    TrainConfig other = config;
    other.routing = form;
    Trainer trainer(other);
    EXPECT_LE(relative_rms(trainer.logits(batch), logits), 1e-6);
    const auto b = trainer.gradients(batch);
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_LE(relative_rms(b[i], a[i]), 1e-4) << masked.parameters()[i].name;
  }
}

// A document's logits hang on no other document. On later tokens of its own they hang only through
// the choice of the top tokens: with mod_percent = 100 on none.
TEST(Hydra, OtherDocumentsAreUnseenAndLaterTokensWithoutTheirChoice) {
  for (const std::int64_t percent : {75, 100}) {
    TrainConfig config = small_hydra();
    config.mod_percent = percent;
    config = value_or_throw(resolve(config));
    Trainer trainer(config);
    const Batch batch = ragged_batch(config);
    const at::Tensor before = trainer.logits(batch, Attention::Varlen);
    Batch other = batch;
    other.tokens = batch.tokens.clone();
    other.tokens.view(-1).narrow(0, 20, 13).fill_(5); // the end of the third document
    const at::Tensor after = trainer.logits(other, Attention::Varlen);
    EXPECT_TRUE(at::equal(before.narrow(0, 0, 13), after.narrow(0, 0, 13)));
    EXPECT_TRUE(at::equal(before.narrow(0, 33, 63), after.narrow(0, 33, 63)));
    EXPECT_EQ(at::equal(before.narrow(0, 13, 7), after.narrow(0, 13, 7)), percent == 100);
  }
}

TEST(Hydra, OneBatchIsLearnedByHeart) {
  TrainConfig config = small_hydra();
  config.lr = 1e-2;
  config.steps = 300;
  config.warmup_steps = 10;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  double loss = 0;
  for (int i = 0; i < 300 && (i == 0 || loss >= 0.1); ++i) loss = trainer.step({batch}).loss();
  EXPECT_LT(loss, 0.1);
}

class HydraLevel : public testing::TestWithParam<RowLevel> {};

TEST_P(HydraLevel, PassesItsGatesAndShowsItsOwnSpan) {
  expect_level(GetParam(), config_for(*GetParam().row, "hydra", small_hydra()));
}

INSTANTIATE_TEST_SUITE_P(All,
                         HydraLevel,
                         testing::ValuesIn(row_levels("hydra")),
                         [](const auto& at) {
                           return at.param.row->name + "_" + at.param.level->name;
                         });

} // namespace hydra_family_test
} // namespace assay
