// A mixture of experts: its equations, its two forms, its gradients, and the balance of its load.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "model/families/routing/experts.h"
#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "model/training/update/expert_balance.h"
#include "tests/model/central_differences.h"
#include "tests/model/model_fixture.h"
#include "tests/model/row_levels.h"

namespace assay {
namespace experts_test {

using namespace testing_model;

const ExpertForm kForms[] = {ExpertForm::Loop, ExpertForm::Grouped};

at::Tensor normal_rows(std::int64_t rows, std::int64_t width, std::uint64_t seed) {
  return at::empty({rows, width}, at::kDouble)
      .normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(seed));
}

struct Made {
  Experts layer;
  std::map<std::string, at::Tensor> parameter;
  std::vector<Parameter> parameters, balances;
};

Made make_experts(const TrainConfig& config, double factor) {
  ParameterFactory make(at::make_generator<at::CPUGeneratorImpl>(4), at::kCPU);
  Made made;
  made.layer = Experts(make, "", config);
  made.parameters = in_doubles(make.take(), factor);
  made.balances = make.take_balances();
  for (const Parameter& p : made.parameters) made.parameter[p.name] = p.tensor;
  made.parameter["router_bias"] = made.balances.front().tensor;
  return made;
}

TrainConfig in_form(ExpertForm form, TrainConfig config = small_moe()) {
  config.expert_form = form;
  return config;
}

TEST(ExpertConfig, PresetsCountTheirParameters) {
  for (const TrainConfig& config : {small_moe(), [] {
                                      TrainConfig tiny;
                                      tiny.preset = "moe-tiny";
                                      return value_or_throw(resolve(tiny));
                                    }()}) {
    const Trainer trainer(config);
    std::int64_t parameters = 0;
    for (const Parameter& p : trainer.parameters()) parameters += p.tensor.numel();
    EXPECT_EQ(parameters, model_size(config).parameters);
  }
  TrainConfig large;
  large.preset = "moe-1b";
  const ModelSize size = model_size(value_or_throw(resolve(large)));
  EXPECT_EQ(size.parameters, 1'015'933'696);
  EXPECT_EQ(size.active_parameters, 237'366'016); // 12 layers leave 30 experts of 3 * 1024 * 704
}

TEST(ExpertConfig, ImpossibleShapesNameTheKey) {
  TrainConfig config;
  config.preset = "moe-tiny";
  config.experts_taken = 9;
  EXPECT_EQ(resolve(config).error().message,
            "key 'experts_taken' (9) must be at most 'experts' (8)");
  config = TrainConfig();
  config.experts = 4;
  EXPECT_NE(resolve(config).error().message.find("'experts' means nothing in preset tiny"),
            std::string::npos);
}

// Both forms in fp64 against the equations of docs/model.md, a token and an expert at a time.
TEST(Experts, AreTheLoopOverNumbers) {
  for (const ExpertForm form : kForms) {
    const TrainConfig config = in_form(form);
    Made made = make_experts(config, 5);
    const at::NoGradGuard no_grad;
    made.parameter["router_bias"].copy_(at::tensor({0.3, -0.2, 0.0, 0.1}));
    const at::Tensor x = normal_rows(21, config.d_model, 5);
    at::Tensor expected = at::zeros_like(x);
    for (std::int64_t t = 0; t < x.size(0); ++t) {
      std::vector<std::pair<double, std::int64_t>> by_score;
      std::vector<double> score;
      for (std::int64_t e = 0; e < config.experts; ++e) {
        const double s = at::dot(made.parameter["router"][e], x[t]).sigmoid().item<double>();
        score.push_back(s);
        by_score.emplace_back(-(s + made.parameter["router_bias"][e].item<double>()), e);
      }
      std::ranges::sort(by_score);
      double all = 0;
      for (std::int64_t i = 0; i < 2; ++i)
        all += score[static_cast<std::size_t>(by_score[i].second)];
      for (std::int64_t i = 0; i < 2; ++i) {
        const std::int64_t e = by_score[i].second, hidden = config.expert_dim;
        const at::Tensor in = at::mv(made.parameter["experts_in"][e], x[t]);
        const at::Tensor a = in.narrow(0, 0, hidden), b = in.narrow(0, hidden, hidden);
        expected[t] += score[static_cast<std::size_t>(e)] / all *
                       at::mv(made.parameter["experts_out"][e], a * a.sigmoid() * b);
      }
    }
    EXPECT_LE(relative_rms(made.layer.run(x), expected), 1e-12);
  }
}

// Routers learn through their weights, not through the choice.
TEST(Experts, GradientsAreCentralDifferences) {
  for (const ExpertForm form : kForms) {
    const TrainConfig config = in_form(form);
    const Made made = make_experts(config, 5);
    const at::Tensor x = normal_rows(21, config.d_model, 5),
                     by = normal_rows(21, config.d_model, 6);
    expect_gradients(made.parameters, [&] { return (made.layer.run(x) * by).sum(); });
  }
}

// With biases that send all tokens to some experts, none to others, and with one expert a token.
TEST(Experts, LoopAndGroupedAreOneFunction) {
  const std::vector<std::vector<double>> biases{{0, 0, 0, 0}, {0, -9, 0, -9}, {9, 0, 0, 0}};
  for (const std::int64_t taken : {1, 2, 3}) {
    for (const auto& bias : biases) {
      TrainConfig config = small_moe();
      config.experts_taken = taken;
      TrainConfig other = config;
      config.expert_form = ExpertForm::Loop, other.expert_form = ExpertForm::Grouped;
      Trainer loop(config), grouped(other);
      for (Trainer* trainer : {&loop, &grouped}) {
        NamedTensors state = trainer->state_tensors();
        const at::NoGradGuard no_grad;
        for (auto& [name, tensor] : state)
          if (name.ends_with("router_bias")) tensor.copy_(at::tensor(bias));
      }
      const Batch batch = ragged_batch(config);
      EXPECT_LE(relative_rms(grouped.logits(batch), loop.logits(batch)), 1e-5);
      const auto a = loop.gradients(batch), b = grouped.gradients(batch);
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_LE(relative_rms(b[i], a[i]), 1e-5) << loop.parameters()[i].name;
    }
  }
}

// A document's logits hang on no other one, whose tokens change what experts have to compute.
TEST(Experts, OtherDocumentsAreUnseen) {
  for (const ExpertForm form : kForms) {
    const TrainConfig config = in_form(form);
    Trainer trainer(config);
    const Batch batch = ragged_batch(config);
    const at::Tensor before = trainer.logits(batch);
    Batch other = batch;
    other.tokens = batch.tokens.clone();
    other.tokens.view(-1).narrow(0, 20, 13).fill_(5); // the end of the third document
    const at::Tensor after = trainer.logits(other);
    EXPECT_TRUE(at::equal(before.narrow(0, 0, 20), after.narrow(0, 0, 20)));
    EXPECT_TRUE(at::equal(before.narrow(0, 33, 63), after.narrow(0, 33, 63)));
    EXPECT_FALSE(at::equal(before.narrow(0, 20, 13), after.narrow(0, 20, 13)));
  }
}

// Adds up over micro-batches, and an evaluation does not count.
TEST(ExpertBalance, TheGradientOfABiasIsTheLoad) {
  for (const ExpertForm form : kForms) {
    const TrainConfig config = in_form(form);
    const Made made = make_experts(config, 5);
    at::Tensor load = at::zeros({config.experts});
    for (const std::uint64_t seed : {5, 6}) {
      const at::Tensor x = normal_rows(21, config.d_model, seed);
      {
        const at::NoGradGuard no_grad;
        const at::Tensor experts = made.layer.choose(x).experts;
        EXPECT_EQ(experts.sizes(), at::IntArrayRef({21, 2}));
        for (std::int64_t i = 0; i < experts.numel(); ++i)
          load[experts.flatten()[i].item<std::int64_t>()] += 1;
      }
      made.layer.run(x).sum().backward();
    }
    EXPECT_EQ(load.sum().item<double>(), 2 * 21 * 2);
    EXPECT_TRUE(at::equal(made.balances.front().tensor.grad(), load - load.mean()));
  }
}

double spread_of(const at::Tensor& load) {
  return (load.std(/*unbiased=*/false) / load.mean()).item<double>();
}

// A router that sends most tokens to one expert: the biases even it out, whatever it scores.
TEST(ExpertBalance, APlantedSkewIsBalanced) {
  TrainConfig config = small_moe();
  config.balance_rate = 0.01;
  Made made = make_experts(config, 1);
  {
    const at::NoGradGuard no_grad;
    made.parameter["router"][0].fill_(0.2); // with x near 1 its score is the largest
  }
  const ExpertBalance balance(made.balances, config);
  std::vector<double> spreads;
  for (std::uint64_t step = 0; step < 200; ++step) {
    const at::Tensor x = 1 + normal_rows(512, config.d_model, step);
    const Choice choice = made.layer.choose(x);
    const at::Tensor load = choice.experts.flatten().bincount({}, config.experts).to(at::kDouble);
    spreads.push_back(spread_of(load));
    choice.weights.sum().backward();
    balance.step();
    EXPECT_FALSE(made.balances.front().tensor.grad().defined());
  }
  EXPECT_GT(spreads.front(), 0.5);
  double last = 0; // mean of 50 steps
  for (auto spread = spreads.end() - 50; spread != spreads.end(); ++spread) last += *spread / 50;
  EXPECT_LT(last, 0.1);
}

at::Tensor first_bias(const Trainer& trainer) {
  for (const auto& [name, tensor] : trainer.state_tensors())
    if (name == "model.layers.0.router_bias") return tensor.clone();
  throw std::runtime_error("the state has no bias");
}

// By balance_rate a step, in the direction of its load; gradients() and evaluations leave it.
TEST(ExpertBalance, AStepMovesBiasesAndTheirStateIsKept) {
  TrainConfig config = small_moe();
  config.balance_rate = 0.25;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  (void)trainer.gradients(batch);
  (void)trainer.evaluate({batch});
  EXPECT_EQ(first_bias(trainer).abs().max().item<double>(), 0);
  (void)trainer.step({batch});
  const at::Tensor bias = first_bias(trainer);
  for (std::int64_t e = 0; e < config.experts; ++e)
    EXPECT_TRUE(std::abs(bias[e].item<double>()) == 0.25 || bias[e].item<double>() == 0);
  EXPECT_GT(bias.abs().max().item<double>(), 0);

  Trainer restored(config);
  restored.load_state_tensors(trainer.state_tensors());
  restored.set_step_index(trainer.step_index());
  EXPECT_TRUE(at::equal(first_bias(restored), bias));
  EXPECT_EQ(restored.step({batch}).loss(), trainer.step({batch}).loss());
  EXPECT_TRUE(at::equal(first_bias(restored), first_bias(trainer)));
}

// A layer that runs again in the backward pass counts its tokens once.
TEST(ExpertBalance, ARecomputedLayerCountsOnce) {
  TrainConfig config = small_moe();
  config.balance_rate = 0.25;
  TrainConfig again = config;
  again.recompute_every = 1;
  Trainer kept(config), recomputed(again);
  for (int i = 0; i < 3; ++i)
    for (Trainer* trainer : {&kept, &recomputed}) (void)trainer->step({ragged_batch(config)});
  EXPECT_TRUE(at::equal(first_bias(kept), first_bias(recomputed)));
}

TEST(Experts, OneBatchIsLearnedByHeart) {
  TrainConfig config = small_moe();
  config.lr = 1e-2;
  config.steps = 300;
  config.warmup_steps = 10;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  double loss = 0;
  for (int i = 0; i < 300 && (i == 0 || loss >= 0.1); ++i) loss = trainer.step({batch}).loss();
  EXPECT_LT(loss, 0.1);
}

TEST(Experts, MuonTakesTheirMatrices) {
  const Trainer trainer(small_moe());
  int stacks = 0;
  for (const Parameter& p : trainer.parameters()) {
    if (p.tensor.dim() != 3) continue;
    EXPECT_TRUE(is_matrix_of_layer(p)) << p.name;
    ++stacks;
  }
  EXPECT_EQ(stacks, 6);
}

// Rows of all families, on a model with experts.
std::vector<RowLevel> levels_with_experts() {
  std::vector<RowLevel> all;
  for (const RowLevel& at : row_levels("deltanet_mla"))
    for (const char* name :
         {"varlen", "recompute", "muon_form", "weights16", "update_pass", "ema_swap", "loss_head"})
      if (at.row->name == name) all.push_back(at);
  return all;
}

class ExpertsLevel : public testing::TestWithParam<RowLevel> {};

TEST_P(ExpertsLevel, PassesItsGatesAndShowsItsOwnSpan) {
  expect_level(GetParam(), config_for(*GetParam().row, "with experts", small_moe()));
}

INSTANTIATE_TEST_SUITE_P(All,
                         ExpertsLevel,
                         testing::ValuesIn(levels_with_experts()),
                         [](const auto& at) {
                           return at.param.row->name + "_" + at.param.level->name;
                         });

} // namespace experts_test
} // namespace assay
