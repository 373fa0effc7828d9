// Linears in 8-bit integers: by hand, against fp64, and what they do to an evaluation.
#include <gtest/gtest.h>

#include "model/gates/gates.h"
#include "model/layers/fp8/fp8_linear.h"
#include "model/layers/linear/int8_linear.h"
#include "model/training/trainer.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace int8_test {

using namespace testing_model;

// The largest value of a row is 127; a row of zeros stays one.
TEST(Int8, RowsByHand) {
  const at::Tensor x = at::tensor({2., -1., 0.5, 0., 0., 0.}).view({2, 3});
  const Int8Rows rows = to_int8(x);
  EXPECT_TRUE(
      at::equal(rows.integers, at::tensor({127, -64, 32, 0, 0, 0}).to(at::kChar).view({2, 3})));
  EXPECT_FLOAT_EQ(rows.scales[0].item<float>(), 2.0f / 127);
  EXPECT_EQ(rows.scales[1].item<float>(), 0);
}

// Operands that are integers in [-127, 127] already are multiplied exactly, whatever the sizes.
TEST(Int8, ProductsOfIntegersAreExact) {
  for (const auto& [tokens, in, out] : {std::tuple(1, 17, 9), std::tuple(33, 512, 40)}) {
    const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
    const auto integers = [&](std::int64_t rows, std::int64_t columns) {
      at::Tensor x = at::empty({rows, columns}).random_(-127, 128, generator);
      x.select(1, 0).fill_(127); // so that every scale is 1
      return x;
    };
    const at::Tensor x = integers(tokens, in), weight = integers(out, in),
                     bias = integers(1, out).view(-1);
    Int8Weights weights;
    EXPECT_TRUE(
        at::equal(int8_linear(x, weight, bias, weights).to(at::kDouble),
                  at::linear(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble))));
  }
}

TEST(Int8, TheGuardTakesTheLinearsOfItsThread) {
  const at::Tensor x = at::randn({4, 32}), weight = at::randn({8, 32});
  const at::Tensor full = apply_linear(x, weight);
  Int8Weights weights;
  {
    const Int8Guard guard(&weights);
    EXPECT_FALSE(at::equal(apply_linear(x, weight), full));
  }
  EXPECT_EQ(weights.size(), 1U);
  EXPECT_TRUE(at::equal(apply_linear(x, weight), full));
}

// Evaluations run by the average's integers, logits by the weights', and steps as ever.
TEST(Int8, WeightsAreRoundedAgainWhereTheyChange) {
  TrainConfig config = small_config();
  config.eval_linears = EvalLinears::Int8;
  Trainer int8(config), full(small_config());
  const Batch batch = ragged_batch(config);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(int8.step({batch}).loss(), full.step({batch}).loss());
    const double a = full.evaluate({batch}).nats_per_token,
                 b = int8.evaluate({batch}).nats_per_token;
    EXPECT_NE(a, b);
    EXPECT_LT(std::abs(b - a) / a, 0.02);
    EXPECT_LE(relative_rms(int8.logits(batch), full.logits(batch)), 0.1);
    Trainer restored(config); // has rounded nothing yet
    restored.load_state_tensors(int8.state_tensors());
    EXPECT_TRUE(at::equal(restored.logits(batch), int8.logits(batch)));
    EXPECT_EQ(restored.evaluate({batch}).nats_per_token, b);
  }
}

TEST(Int8, CountsItsProducts) {
  TrainConfig config = small_config();
  config.eval_linears = EvalLinears::Int8;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  EventCounts counts;
  {
    const SpanSinkGuard counting(counts);
    (void)trainer.evaluate({batch});
  }
  // Three layers G M G: 2 + 4 + 2 linears of mixers, and two of each feed-forward.
  EXPECT_EQ(counts.seen["int8/linear"], 14);
}

} // namespace int8_test
} // namespace assay
