// Experts on a GPU: the product of groups against a product for each, and training.
#include <gtest/gtest.h>

#include "model/gates/gates.h"
#include "model/layers/linear/grouped_linear.h"
#include "model/training/trainer.h"
#include "tests/model/gpu/no_wait.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace experts_gpu_test {

using namespace testing_model;

// Groups of 0, 1, 7 and 300 rows; gradients of the operand and of every group's weight.
TEST(GroupedLinearGpu, OneKernelEqualsAProductForEachGroup) {
  const at::TensorOptions gpu = at::TensorOptions().device(at::kCUDA);
  const std::vector<int> counts{0, 1, 7, 300, 0, 52};
  std::vector<int> borders;
  for (const int count : counts) borders.push_back(count + (borders.empty() ? 0 : borders.back()));
  const at::Tensor ends = at::tensor(borders, at::kInt).to(at::kCUDA);
  const auto leaf = [&](at::IntArrayRef shape) {
    return at::randn(shape, gpu).to(at::kBFloat16).requires_grad_();
  };
  at::Tensor x = leaf({borders.back(), 128}), weight = leaf({6, 192, 128});
  const at::Tensor by = at::randn({borders.back(), 192}, gpu).to(at::kBFloat16);
  const at::Tensor y = grouped_linear(x, weight, weight.detach(), ends);
  y.backward(by);
  at::Tensor wide_x = x.detach().to(at::kDouble).requires_grad_(),
             wide = weight.detach().to(at::kDouble).requires_grad_();
  const at::Tensor expected = grouped_linear(wide_x, wide, wide.detach(), ends);
  expected.backward(by.to(at::kDouble));
  EXPECT_LE(relative_rms(y, expected), 4e-3);
  EXPECT_LE(relative_rms(x.grad(), wide_x.grad()), 4e-3);
  EXPECT_LE(relative_rms(weight.grad(), wide.grad()), 4e-3);
  EXPECT_EQ(weight.grad()[0].abs().max().item<double>(), 0);
}

TrainConfig gpu_moe(ExpertForm form) {
  TrainConfig config = small_moe();
  config.device = Device::Cuda;
  config.precision = Precision::Bf16;
  config.head_dim = 32;
  config.chunk_size = 64;
  config.expert_form = form;
  return value_or_throw(resolve(config));
}

void expect_one_function(TrainConfig config, double logits_bound, double gradient_bound) {
  config.expert_form = ExpertForm::Loop;
  Trainer loop(config);
  config.expert_form = ExpertForm::Grouped;
  Trainer grouped(config);
  const Batch batch = ragged_batch(config);
  EXPECT_LE(relative_rms(grouped.logits(batch), loop.logits(batch)), logits_bound);
  const auto a = loop.gradients(batch), b = grouped.gradients(batch);
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_LE(relative_rms(b[i], a[i]), gradient_bound) << loop.parameters()[i].name;
}

// In bf16 only one layer: the input of the next one's router is rounded otherwise, and a token
// whose experts are nearly equal then goes elsewhere.
TEST(ExpertsGpu, LoopAndGroupedAreOneFunction) {
  TrainConfig config = gpu_moe(ExpertForm::Loop);
  config.precision = Precision::Fp32;
  expect_one_function(value_or_throw(resolve(config)), 1e-4, 1e-3);
  config.precision = Precision::Bf16;
  config.pattern = "G";
  expect_one_function(value_or_throw(resolve(config)), 2e-2, 5e-2);
}

TEST(ExpertsGpu, AGroupedStepDoesNotWait) {
  TrainConfig config = gpu_moe(ExpertForm::Grouped);
  expect_no_wait(config, {ragged_batch(config)});
}

TEST(ExpertsGpu, OneBatchIsLearnedByHeart) {
  TrainConfig config = gpu_moe(ExpertForm::Grouped);
  config.lr = 1e-2;
  config.steps = 300;
  config.warmup_steps = 10;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  double loss = 0;
  for (int i = 0; i < 300 && (i == 0 || loss >= 0.1); ++i) loss = trainer.step({batch}).loss();
  EXPECT_LT(loss, 0.1);
}

} // namespace experts_gpu_test
} // namespace assay
