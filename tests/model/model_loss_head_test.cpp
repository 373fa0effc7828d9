// The loss in chunks of tokens against the loss of all logits: alone in fp64, and in a trainer.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/result.h"
#include "model/config/loss_chunk.h"
#include "model/gates/gates.h"
#include "model/layers/loss_head.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_loss_head_test {

using testing_model::ragged_batches;
using testing_model::small_config;

constexpr std::int64_t kTokens = 101, kWidth = 12, kVocab = 4001; // 1 MiB in fp64: 32 tokens
constexpr std::int64_t kMib = 1;

struct Inputs {
  at::Tensor x, head, targets;
};

Inputs inputs() {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const auto normal = [&](at::IntArrayRef shape) {
    return at::empty(shape, at::kDouble).normal_(0, 1, generator).requires_grad_();
  };
  return {normal({kTokens, kWidth}),
          normal({kVocab, kWidth}),
          at::empty({kTokens}, at::kLong).random_(0, kVocab, generator)};
}

struct Seen {
  at::Tensor loss, x, head;
};

// Backward of loss * weight * scale, as a trainer does it.
Seen seen(const Inputs& in, const at::Tensor& loss, const LossGradient& gradient) {
  const at::Tensor weighted = gradient.weight == 1 ? loss : loss * gradient.weight;
  (gradient.scale.defined() ? weighted * gradient.scale : weighted).backward();
  Seen result{loss.detach(), in.x.grad(), in.head.grad()};
  in.x.mutable_grad().reset(), in.head.mutable_grad().reset();
  return result;
}

void expect_same(const Inputs& in, const LossGradient& gradient) {
  const Seen expected = seen(in, logits_loss(at::linear(in.x, in.head), in.targets), gradient);
  const Seen actual = seen(in, chunked_loss(in.x, in.head, in.targets, kMib, gradient), gradient);
  EXPECT_LE(relative_rms(actual.loss, expected.loss), 1e-10);
  EXPECT_LE(relative_rms(actual.x, expected.x), 1e-10);
  EXPECT_LE(relative_rms(actual.head, expected.head), 1e-10);
}

TEST(LossHead, ChunksThatDoNotDivideTheTokensChangeNothing) {
  ASSERT_EQ(loss_chunk_tokens(kTokens, kVocab, kMib, 8), 32); // 32, 32, 32 and 5
  expect_same(inputs(), {});
}

TEST(LossHead, IgnoredTargetsAreLeftOut) {
  const Inputs in = inputs();
  for (const std::int64_t t : {0, 31, 32, 33, 100}) in.targets[t] = -100;
  in.targets.narrow(0, 64, 32).fill_(-100); // a whole chunk
  expect_same(in, {});
}

TEST(LossHead, GradientsHaveTheFactorOfWeightAndScale) {
  expect_same(inputs(), {1.0 / 3, {}});
  expect_same(inputs(), {1, at::scalar_tensor(4096.0, at::kDouble)});
  expect_same(inputs(), {1.0 / 3, at::scalar_tensor(4096.0, at::kDouble)});
}

TEST(LossHead, LossesAloneAreTheSame) {
  const Inputs in = inputs();
  const at::NoGradGuard no_grad;
  const at::Tensor loss = chunked_loss(in.x, in.head, in.targets, kMib);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_LE(relative_rms(loss, logits_loss(at::linear(in.x, in.head), in.targets)), 1e-12);
}

TEST(LossHead, AGradientThatWasNotAnnouncedIsRefused) {
  const Inputs in = inputs();
  EXPECT_THROW((chunked_loss(in.x, in.head, in.targets, kMib) * 2).backward(), c10::Error);
  EXPECT_THROW(chunked_loss(in.x, in.head, in.targets, kMib, {.5, {}}).backward(), c10::Error);
  EXPECT_FALSE(in.head.grad().defined());
}

TEST(LossHead, GradientsAreHandedOutOnce) {
  const Inputs in = inputs();
  const at::Tensor loss = chunked_loss(in.x, in.head, in.targets, kMib);
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), Failure);
}

// 61 columns become 5003, so that 1 MiB is 52 of the 96 tokens in fp32.
TrainConfig with_chunks(std::int64_t mib) {
  TrainConfig config = small_config();
  config.vocab_size = 5003;
  config.loss_chunk_mib = mib;
  return config;
}

double off(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) worst = std::max(worst, relative_rms(a[i], b[i]));
  return worst;
}

TEST(LossHead, ATrainersMicroBatchesScalerAndEvaluationAreTheLogitsForms) {
  for (const GradScaler scaler : {GradScaler::Off, GradScaler::Dynamic})
    for (const std::int64_t accumulate : {1, 3}) {
      TrainConfig whole = with_chunks(0), chunked = with_chunks(kMib);
      whole.grad_scaler = chunked.grad_scaler = scaler;
      whole.accumulate = chunked.accumulate = accumulate;
      Trainer a(whole), b(chunked);
      const std::vector<Batch> batches = ragged_batches(whole, static_cast<int>(accumulate));
      EXPECT_NEAR(b.evaluate(batches).nats_per_token, a.evaluate(batches).nats_per_token, 1e-5);
      EXPECT_LE(off(b.averaged_gradients(batches), a.averaged_gradients(batches)), 1e-4);
      for (int i = 0; i < 3; ++i)
        EXPECT_NEAR(b.step(batches).loss(), a.step(batches).loss(), 1e-5) << i;
      EXPECT_EQ(b.skipped_steps(), 0);
    }
}

// fp16 gradients of single tokens vanish without the factor inside.
TEST(LossHead, SixteenBitGradientsStayNearThoseOfFp32) {
  for (const Precision precision : {Precision::Bf16, Precision::Fp16}) {
    TrainConfig exact = with_chunks(0), chunked = with_chunks(kMib);
    chunked.precision = precision;
    chunked.grad_scaler = GradScaler::Dynamic;
    Trainer a(exact), b(chunked);
    const Batch batch = ragged_batches(exact, 1).front();
    EXPECT_NEAR(b.loss(batch).item<double>(), a.loss(batch).item<double>(), 1e-2);
    const auto x = b.gradients(batch), y = a.gradients(batch);
    EXPECT_LE(relative_rms(x.back(), y.back()), 2e-2); // the head's
  }
}

TEST(LossHead, AnOverflowSkipsTheStep) {
  TrainConfig config = with_chunks(kMib);
  config.precision = Precision::Fp16;
  config.grad_scaler = GradScaler::Dynamic;
  config.init_scale = 0x1p30;
  Trainer trainer(config);
  EXPECT_TRUE(trainer.step(ragged_batches(config, 1)).finite());
  EXPECT_EQ(trainer.skipped_steps(), 1);
}

TEST(LossHead, ChunksKeepTheirBudget) {
  for (const std::int64_t tokens : {1, 96, 2048, 32768})
    for (const std::int64_t vocab : {61, 8192, 50304, 262144})
      for (const std::int64_t mib : {1, 64, 256})
        for (const std::int64_t bytes : {2, 4, 8}) {
          const std::int64_t chunk = loss_chunk_tokens(tokens, vocab, mib, bytes);
          ASSERT_GE(chunk, 1);
          ASSERT_LE(chunk, tokens);
          ASSERT_TRUE(chunk * vocab * bytes <= mib << 20 || chunk == 1)
              << tokens << " " << vocab << " " << mib;
        }
  EXPECT_EQ(loss_chunk_tokens(32768, 50304, 256, 2), 2560);
  EXPECT_EQ(loss_chunk_tokens(32768, 50304, 64, 2), 640);
}

} // namespace model_loss_head_test
} // namespace assay
