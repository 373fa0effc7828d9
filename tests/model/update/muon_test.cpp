// Muon against singular values, plain arithmetic in fp64 and AdamW.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace muon_test {

using testing_model::ragged_batches;
using testing_model::small_config;

at::Tensor drawn(at::IntArrayRef shape, std::uint64_t seed) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::empty(shape, at::kDouble).normal_(0, 1, generator);
}

TrainConfig muon_config(MuonForm form = MuonForm::Batched) {
  TrainConfig config = small_config();
  config.optimizer = OptimizerKind::Muon;
  config.muon_form = form;
  return value_or_throw(resolve(config));
}

at::Tensor state(const Trainer& trainer, const std::string& name) {
  for (const auto& [own, tensor] : trainer.state_tensors())
    if (own == name) return tensor.clone();
  return {};
}

// What the source promises: U S' V^T with S' near 1, whatever the singular values of the matrix.
TEST(NewtonSchulz, KeepsSingularVectorsAndLevelsSingularValues) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{24, 40}, {40, 24}}) {
    const auto [u, s, v] = at::linalg_svd(drawn({rows, columns}, 3), false);
    const at::Tensor spread = at::logspace(-1.5, 0, 24, 10., at::kDouble);
    const at::Tensor matrix = at::mm(u * spread, v);
    const at::Tensor inside = at::mm(at::mm(u.t(), newton_schulz(matrix, at::kDouble)), v.t());
    const at::Tensor values = inside.diagonal();
    EXPECT_LT((inside - at::diag(values)).abs().max().item<double>(), 1e-9);
    EXPECT_GT(values.min().item<double>(), 0.5);
    EXPECT_LT(values.max().item<double>(), 1.5);
  }
}

TEST(NewtonSchulz, TakesAStackAsItsMatricesAndNothingFromNothing) {
  const at::Tensor stack = drawn({3, 8, 5}, 4);
  const at::Tensor together = newton_schulz(stack, at::kDouble);
  for (std::int64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(at::allclose(together[i], newton_schulz(stack[i], at::kDouble), 1e-12, 1e-12));
  EXPECT_EQ(newton_schulz(at::zeros({4, 6}), at::kFloat).abs().max().item<double>(), 0);
}

TEST(Muon, TakesTheMatricesOfLayersStackedOnesToo) {
  const auto takes = [](const std::string& name, at::IntArrayRef shape, bool decay) {
    return is_matrix_of_layer({name, at::zeros(shape), decay});
  };
  EXPECT_TRUE(takes("layers.0.ffn_in", {8, 4}, true));
  EXPECT_TRUE(takes("layers.0.experts", {6, 8, 4}, true));
  EXPECT_FALSE(takes("layers.0.conv", {8, 4}, false));
  EXPECT_FALSE(takes("layers.0.norm", {8}, false));
  EXPECT_FALSE(takes("embedding", {61, 8}, true));
  EXPECT_FALSE(takes("head", {61, 8}, true));
}

// The formulas of muon.h, in fp64.
TEST(Muon, AnUpdateIsThatOfItsFormulas) {
  const TrainConfig config = muon_config();
  Trainer trainer(config);
  std::vector<at::Tensor> gradients;
  for (const Parameter& p : trainer.parameters())
    gradients.push_back(drawn(p.tensor.sizes(), gradients.size()).mul_(1e-4).to(at::kFloat));
  std::vector<at::Tensor> expected, momentum;
  for (const Parameter& p : trainer.parameters()) {
    expected.push_back(p.tensor.detach().to(at::kDouble));
    momentum.push_back(at::zeros_like(expected.back()));
  }
  for (std::int64_t step = 0; step < 2; ++step) {
    (void)trainer.update_with(gradients);
    const double rate = config.muon_lr * learning_rate(config, step) / config.lr;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor g = gradients[i].to(at::kDouble);
      if (!is_matrix_of_layer(trainer.parameters()[i])) continue;
      momentum[i] = config.muon_momentum * momentum[i] + (1 - config.muon_momentum) * g;
      const at::Tensor ahead = config.muon_momentum * momentum[i] + (1 - config.muon_momentum) * g;
      const double ratio = static_cast<double>(g.size(0)) / static_cast<double>(g.size(1));
      expected[i] = (1 - rate * config.weight_decay) * expected[i] -
                    rate * std::sqrt(std::max(1.0, ratio)) * newton_schulz(ahead, at::kDouble);
    }
  }
  std::int64_t matrices = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Parameter& p = trainer.parameters()[i];
    if (!is_matrix_of_layer(p)) continue;
    ++matrices;
    EXPECT_LT((p.tensor.detach() - expected[i]).abs().max().item<double>(), 1e-5) << p.name;
    EXPECT_TRUE(at::allclose(
        state(trainer, "optimizer.momentum." + p.name).to(at::kDouble), momentum[i], 1e-5, 1e-12));
    EXPECT_FALSE(state(trainer, "optimizer.exp_avg." + p.name).defined()) << p.name;
  }
  EXPECT_GT(matrices, 6);
}

TEST(Muon, WhatItLeavesIsUpdatedAsByAdamW) {
  const TrainConfig muon = muon_config(), adamw = small_config();
  Trainer a(muon), b(adamw);
  for (int step = 0; step < 3; ++step) {
    std::vector<at::Tensor> gradients;
    for (const Parameter& p : a.parameters())
      gradients.push_back(drawn(p.tensor.sizes(), gradients.size()).to(at::kFloat));
    (void)a.update_with(gradients);
    (void)b.update_with(gradients);
  }
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    EXPECT_EQ(at::equal(a.parameters()[i].tensor, b.parameters()[i].tensor),
              !is_matrix_of_layer(a.parameters()[i]))
        << a.parameters()[i].name;
}

TEST(Muon, BothFormsAreOneFunctionToTheBit) {
  Trainer loop(muon_config(MuonForm::PerMatrix)), batched(muon_config());
  const std::vector<Batch> batches = ragged_batches(loop.config(), 6);
  for (const Batch& batch : batches) {
    (void)loop.step({batch});
    (void)batched.step({batch});
  }
  for (std::size_t i = 0; i < loop.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(loop.parameters()[i].tensor, batched.parameters()[i].tensor))
        << loop.parameters()[i].name;
}

TEST(Muon, ASkippedUpdateChangesNoBit) {
  TrainConfig config = muon_config();
  config.grad_scaler = GradScaler::Dynamic;
  Trainer trainer(value_or_throw(resolve(config)));
  std::vector<at::Tensor> gradients;
  for (const Parameter& p : trainer.parameters()) gradients.push_back(at::ones_like(p.tensor));
  (void)trainer.update_with(gradients);
  NamedTensors before;
  for (const auto& [name, tensor] : trainer.state_tensors())
    before.emplace_back(name, tensor.clone());
  gradients.front().view(-1)[0].fill_(std::numeric_limits<double>::infinity());
  (void)trainer.update_with(gradients);
  const NamedTensors after = trainer.state_tensors();
  std::int64_t compared = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!before[i].first.starts_with("model.") && !before[i].first.starts_with("optimizer."))
      continue;
    ++compared;
    EXPECT_TRUE(at::equal(before[i].second, after[i].second)) << before[i].first;
  }
  EXPECT_GT(compared, 20);
}

TEST(Muon, TrainsOnOneBatch) {
  TrainConfig config = muon_config();
  config.steps = 60;
  Trainer trainer(config);
  const Batch batch = testing_model::ragged_batch(config);
  const double first = trainer.step({batch}).loss();
  for (int step = 0; step < 50; ++step) (void)trainer.step({batch});
  EXPECT_LT(trainer.step({batch}).loss(), 0.2 * first);
}

TEST(Muon, OnePassIsRefused) {
  TrainConfig config = small_config();
  config.optimizer = OptimizerKind::Muon;
  config.update_pass = UpdatePass::OnePass;
  EXPECT_FALSE(resolve(config));
  config.update_pass = UpdatePass::Foreach;
  EXPECT_TRUE(resolve(config));
  config.muon_momentum = 1;
  EXPECT_FALSE(resolve(config));
}

} // namespace muon_test
} // namespace assay
