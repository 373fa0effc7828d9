// Optimizer, schedule, clipping, loss scaler and EMA against plain arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_optimizer_test {

using testing_model::ragged_batch;
using testing_model::ragged_batches;
using testing_model::small_config;

TEST(LearningRate, WarmsUpThenFollowsTheCosine) {
  TrainConfig config = small_config();
  config.lr = 1.0, config.warmup_steps = 10, config.steps = 110, config.min_lr_ratio = 0.1;
  EXPECT_DOUBLE_EQ(learning_rate(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(config, 10), 1.0);
  EXPECT_NEAR(learning_rate(config, 60), 0.55, 1e-12);
  EXPECT_NEAR(learning_rate(config, 110), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate(config, 5000), 0.1, 1e-12);
}

TEST(Clipping, ScalesToTheNormAndLeavesSmallGradients) {
  const std::vector<at::Tensor> gradients{at::full({4}, 3.0), at::full({4}, 4.0)};
  EXPECT_NEAR(clip_gradients(gradients, 1.0).item<double>(), 10.0, 1e-5);
  EXPECT_NEAR(at::stack(gradients).norm().item<double>(), 1.0, 1e-5);
  const std::vector<at::Tensor> small{at::full({4}, 0.1)};
  const at::Tensor before = small[0].clone();
  (void)clip_gradients(small, 1.0);
  EXPECT_TRUE(at::equal(small[0], before));
}

// Read by the host or left on the device: the same gradients, and none is touched below the limit.
TEST(ClipRead, BothReadingsClipAlike) {
  for (const UpdatePass pass : {UpdatePass::PerParameter, UpdatePass::Foreach})
    for (const double limit : {0.5, 1e6}) {
      std::vector<at::Tensor> host{at::randn({33}), at::randn({7, 5})}, device, before;
      for (const at::Tensor& gradient : host) {
        device.push_back(gradient.clone());
        before.push_back(gradient.clone());
      }
      const at::Tensor a = clip_gradients(host, limit, pass, ClipRead::Host),
                       b = clip_gradients(device, limit, pass, ClipRead::Device);
      EXPECT_TRUE(at::equal(a, b));
      for (std::size_t i = 0; i < host.size(); ++i) {
        EXPECT_TRUE(at::allclose(host[i], device[i], 1e-6, 0)) << limit;
        EXPECT_EQ(at::equal(host[i], before[i]), limit > 1);
      }
    }
}

// Squares of millions of elements, added in few fp32 accumulators, lose a thousandth of the norm.
TEST(Clipping, NormOfAHeadIsThatOfDoubleArithmetic) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const std::vector<at::Tensor> gradients{at::empty({8192, 512}).normal_(0, 1e-3, generator),
                                          at::empty({512}).normal_(0, 1e-2, generator)};
  double squares = 0;
  for (const at::Tensor& gradient : gradients)
    squares += gradient.to(at::kDouble).square().sum().item<double>();
  const double expected = std::sqrt(squares);
  const at::Tensor first = gradients[0].to(at::kDouble);
  EXPECT_NEAR(clip_gradients(gradients, 0.5).item<double>() / expected, 1, 1e-6);
  const double factor = (gradients[0].to(at::kDouble) / first).median().item<double>();
  EXPECT_NEAR(factor * (expected + 1e-6) / 0.5, 1, 1e-6);
}

// One parameter that decays and one that does not, three updates, in double arithmetic.
TEST(AdamW, EqualsThePlainUpdate) {
  TrainConfig config = small_config();
  std::vector<Parameter> parameters{{"decayed", at::tensor({1.0F, -2.0F}).requires_grad_(), true},
                                    {"free", at::tensor({0.5F, 3.0F}).requires_grad_(), false}};
  AdamW optimizer(parameters, config);
  double w[2][2] = {{1, -2}, {0.5, 3}}, m[2][2] = {}, s[2][2] = {};
  for (int t = 1; t <= 3; ++t) {
    const double lr = 0.01 * t;
    for (int p = 0; p < 2; ++p) {
      const double gradient[2] = {0.3 * t, -0.7 + p};
      parameters[static_cast<std::size_t>(p)].tensor.mutable_grad() =
          at::tensor({gradient[0], gradient[1]}, at::kFloat);
      for (int i = 0; i < 2; ++i) {
        w[p][i] *= p == 0 ? 1 - lr * config.weight_decay : 1;
        m[p][i] = config.beta1 * m[p][i] + (1 - config.beta1) * gradient[i];
        s[p][i] = config.beta2 * s[p][i] + (1 - config.beta2) * gradient[i] * gradient[i];
        const double mean = m[p][i] / (1 - std::pow(config.beta1, t));
        const double square = s[p][i] / (1 - std::pow(config.beta2, t));
        w[p][i] -= lr * mean / (std::sqrt(square) + config.adam_eps);
      }
    }
    optimizer.step(lr);
  }
  for (int p = 0; p < 2; ++p)
    for (int i = 0; i < 2; ++i)
      EXPECT_NEAR(parameters[static_cast<std::size_t>(p)].tensor[i].item<double>(), w[p][i], 2e-6);
}

TEST(AdamW, FoundInfLeavesEverything) {
  const TrainConfig config = small_config();
  std::vector<Parameter> parameters{{"w", at::tensor({1.0F, -2.0F}).requires_grad_(), true}};
  AdamW optimizer(parameters, config);
  parameters[0].tensor.mutable_grad() = at::full({2}, INFINITY);
  optimizer.step(0.1, at::ones({1}));
  EXPECT_TRUE(at::equal(parameters[0].tensor.detach(), at::tensor({1.0F, -2.0F})));
  for (const auto& [name, tensor] : optimizer.state())
    EXPECT_EQ(tensor.abs().sum().item<double>(), 0) << name;
}

TEST(LossScaler, GrowsAfterGoodStepsAndHalvesOnOverflow) {
  TrainConfig config = small_config();
  config.grad_scaler = GradScaler::Dynamic;
  config.init_scale = 1024;
  config.scale_growth_interval = 2;
  LossScaler scaler(config, at::kCPU);
  EXPECT_EQ(scaler.scale(at::scalar_tensor(2.0)).item<double>(), 2048);
  std::vector<at::Tensor> gradients{at::full({2}, 1024.0)};
  EXPECT_EQ(scaler.unscale(gradients).item<double>(), 0);
  EXPECT_EQ(gradients[0][0].item<double>(), 1.0);
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 1024);
  (void)scaler.unscale(gradients);
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 2048);
  gradients[0][1] = NAN;
  EXPECT_EQ(scaler.unscale(gradients).item<double>(), 1);
  scaler.update();
  EXPECT_EQ(scaler.current_scale(), 1024);
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

// A scale at the edge of fp32 overflows in the backward: steps are skipped and change nothing until
// it has fallen.
TEST(LossScaler, OverflowSkipsTheStepAndTrainingGoesOn) {
  TrainConfig config = small_config();
  config.grad_scaler = GradScaler::Dynamic;
  config.init_scale = std::ldexp(1.0, 127);
  Trainer trainer(config);
  const at::Tensor before = trainer.parameters().front().tensor.detach().clone();
  (void)trainer.step({ragged_batch(config)});
  EXPECT_EQ(trainer.skipped_steps(), 1);
  EXPECT_TRUE(at::equal(trainer.parameters().front().tensor.detach(), before));
  for (int i = 0; i < 12; ++i) (void)trainer.step({ragged_batch(config)});
  EXPECT_LT(trainer.skipped_steps(), 13);
  EXPECT_FALSE(at::equal(trainer.parameters().front().tensor.detach(), before));
}

TEST(Ema, FollowsTheWeights) {
  TrainConfig config = small_config();
  config.ema_decay = 0.75;
  std::vector<Parameter> parameters{{"w", at::tensor({1.0F, 2.0F}).requires_grad_(), true}};
  Ema ema(parameters, config);
  {
    const at::NoGradGuard no_grad;
    parameters[0].tensor.add_(4.0);
  }
  ema.update();
  EXPECT_TRUE(at::allclose(ema.state()[0].second, at::tensor({2.0F, 3.0F})));
}

class EmaSwapMethod : public testing::TestWithParam<EmaSwap> {};

// More elements than the exchange's scratch holds, and not a multiple of it.
TEST_P(EmaSwapMethod, PutsTheAverageInAndTheWeightsBack) {
  TrainConfig config = small_config();
  config.ema_swap = GetParam();
  std::vector<Parameter> parameters{
      {"big", at::randn({3, 50001}, at::make_generator<at::CPUGeneratorImpl>(1)), true},
      {"small", at::tensor({1.0F}), false}};
  for (Parameter& parameter : parameters) parameter.tensor.requires_grad_();
  Ema ema(parameters, config);
  {
    const at::NoGradGuard no_grad;
    for (Parameter& parameter : parameters) parameter.tensor.mul_(1.5);
  }
  ema.update();
  std::vector<at::Tensor> weights, average;
  for (std::size_t i = 0; i < 2; ++i) {
    weights.push_back(parameters[i].tensor.detach().clone());
    average.push_back(ema.state()[i].second.clone());
    ASSERT_FALSE(at::equal(weights[i], average[i]));
  }
  {
    const Ema::Scope scope(ema);
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::equal(parameters[i].tensor.detach(), average[i]));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(at::equal(parameters[i].tensor.detach(), weights[i]));
    EXPECT_TRUE(at::equal(ema.state()[i].second, average[i]));
    EXPECT_TRUE(parameters[i].tensor.requires_grad());
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         EmaSwapMethod,
                         testing::Values(EmaSwap::CloneCopy,
                                         EmaSwap::PointerSwap,
                                         EmaSwap::Exchange));

// Training goes on exactly as before after an evaluation, whichever way it swapped.
TEST_P(EmaSwapMethod, TrainingIsUntouchedByEvaluation) {
  TrainConfig config = small_config();
  config.ema_swap = GetParam();
  const std::vector<Batch> batches = ragged_batches(config, 3);
  Trainer with(config), without(config);
  for (const Batch& batch : batches) {
    (void)with.evaluate(batches);
    EXPECT_EQ(with.step({batch}).loss(), without.step({batch}).loss());
  }
  EXPECT_EQ(with.evaluate(batches).nats_per_token, without.evaluate(batches).nats_per_token);
}

} // namespace model_optimizer_test
} // namespace assay
