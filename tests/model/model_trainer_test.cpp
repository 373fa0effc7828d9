// The trainer as a whole: learning, accumulation, exact resume, generation, precision, memory and
// global state.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "model/gates/gates.h"
#include "model/memory/peak_memory.h"
#include "model/training/generate.h"
#include "model/training/global_state.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace model_trainer_test {

using testing_model::ragged_batch;
using testing_model::ragged_batches;
using testing_model::random_batch;
using testing_model::small_config;

bool same_weights(const Trainer& a, const Trainer& b) {
  for (std::size_t i = 0; i < a.parameters().size(); ++i)
    if (!at::equal(a.parameters()[i].tensor, b.parameters()[i].tensor)) return false;
  return true;
}

TEST(Trainer, ParametersCountAsTheConfigSays) {
  for (const char* preset : {"tiny", "small"}) {
    TrainConfig config;
    config.preset = preset;
    config = value_or_throw(resolve(config));
    std::int64_t parameters = 0;
    const Trainer trainer(config);
    for (const Parameter& parameter : trainer.parameters()) parameters += parameter.tensor.numel();
    EXPECT_EQ(parameters, model_size(config).parameters) << preset;
  }
}

TEST(Trainer, TinyOverfitsOneBatchIn20Steps) {
  TrainConfig config;
  config.preset = "tiny";
  config.warmup_steps = 2;
  config = value_or_throw(resolve(config));
  Trainer trainer(config);
  const Batch batch = random_batch(config, 1, {100, 150});
  const double first = trainer.step({batch}).loss();
  EXPECT_NEAR(first, std::log(static_cast<double>(config.vocab_size)), 0.7);
  double last = 0;
  for (int i = 0; i < 19; ++i) last = trainer.step({batch}).loss();
  EXPECT_LT(last, 0.5 * first);
}

TEST(Trainer, NaiveAndChunkedFormsTrainAlike) {
  TrainConfig config = small_config(), naive = config;
  naive.delta_form = DeltaForm::Naive;
  Trainer a(config), b(naive);
  const Batch batch = ragged_batch(config);
  const auto x = a.gradients(batch), y = b.gradients(batch);
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_LE(relative_rms(x[i], y[i]), 1e-4) << a.parameters()[i].name;
}

TEST(Trainer, TwoMicroBatchesAreTheMeanOfTheirGradients) {
  TrainConfig config = small_config();
  const std::vector<Batch> batches = ragged_batches(config, 2);
  Trainer trainer(config);
  const auto a = trainer.gradients(batches[0]), b = trainer.gradients(batches[1]);
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    square += std::pow(((a[i] + b[i]) / 2).norm().item<double>(), 2);
  EXPECT_NEAR(trainer.step(batches).grad_norm(), std::sqrt(square), 1e-5 * std::sqrt(square));
}

TEST(Trainer, ResumesBitExactly) {
  TrainConfig config = small_config();
  config.grad_scaler = GradScaler::Dynamic;
  const std::vector<Batch> batches = ragged_batches(config, 4);
  Trainer whole(config), half(config);
  for (int i = 0; i < 2; ++i) (void)whole.step({batches[static_cast<std::size_t>(i)]});
  NamedTensors saved;
  for (const auto& [name, tensor] : whole.state_tensors()) saved.emplace_back(name, tensor.clone());
  (void)half.step({batches[3]});
  half.load_state_tensors(saved);
  half.set_step_index(whole.step_index());
  half.set_rng_state(whole.rng_state());
  for (int i = 2; i < 4; ++i)
    EXPECT_EQ(whole.step({batches[static_cast<std::size_t>(i)]}).loss(),
              half.step({batches[static_cast<std::size_t>(i)]}).loss());
  EXPECT_TRUE(same_weights(whole, half));
  EXPECT_EQ(whole.evaluate(batches).nats_per_token, half.evaluate(batches).nats_per_token);
  EXPECT_EQ(whole.rng_state(), half.rng_state());
}

TEST(Trainer, StateOfAnotherModelIsRefused) {
  TrainConfig config = small_config(), wider = config;
  wider.ffn_dim *= 2;
  Trainer trainer(config);
  EXPECT_THROW(trainer.load_state_tensors(Trainer(wider).state_tensors()), Failure);
  EXPECT_THROW(trainer.load_state_tensors({}), Failure);
  EXPECT_THROW(trainer.set_rng_state("short"), Failure);
}

TEST(Trainer, SeedAloneDecidesTheWeights) {
  TrainConfig config = small_config(), other = config;
  other.seed = 2;
  Trainer a(config);
  (void)at::rand({100}); // the global generator plays no part
  Trainer b(config), c(other);
  EXPECT_TRUE(same_weights(a, b));
  EXPECT_FALSE(same_weights(a, c));
}

class LowPrecision : public testing::TestWithParam<Precision> {};

TEST_P(LowPrecision, LogitsAreNearThoseOfFp32) {
  TrainConfig exact = small_config(), low = exact;
  low.precision = GetParam();
  Trainer a(exact), b(low);
  const Batch batch = ragged_batch(exact);
  EXPECT_LE(relative_rms(b.logits(batch), a.logits(batch)), 2e-2);
  EXPECT_GT(relative_rms(b.logits(batch), a.logits(batch)), 1e-6); // autocast really ran
  EXPECT_TRUE(b.step({batch}).finite());
}

INSTANTIATE_TEST_SUITE_P(All, LowPrecision, testing::Values(Precision::Bf16, Precision::Fp16));

TEST(Trainer, NonFiniteLossIsSeen) {
  TrainConfig config = small_config();
  Trainer trainer(config);
  {
    const at::NoGradGuard no_grad;
    trainer.parameters().back().tensor.fill_(NAN);
  }
  const StepResult result = trainer.step({ragged_batch(config)});
  EXPECT_FALSE(result.finite());
}

TEST(Trainer, AStepReadsNothingBack) {
  TrainConfig config = small_config();
  config.grad_scaler = GradScaler::Dynamic;
  const CodePath seen =
      record_code_path(*optimizations().find("grad_scaler"), config, {ragged_batch(config)});
  // The CPU's fused AdamW reads its step counter and rate; nothing else does. run_unit itself asks
  // for the loss once.
  EXPECT_EQ(seen.operators.count("aten::nonzero"), 0U);
  EXPECT_LE(seen.operators.at("aten::_local_scalar_dense"), 1 + 3 * 50);
  EXPECT_GT(seen.operators.at("aten::bmm"), 0);
}

TEST(Trainer, EvaluationIsDocumentIsolatedAtEveryLevel) {
  TrainConfig config = small_config();
  const std::vector<Batch> batches = ragged_batches(config, 2);
  double expected = 0;
  for (const Attention attention : {Attention::Varlen, Attention::Packed, Attention::MaskDense}) {
    config.attention = attention;
    const double loss = Trainer(config).evaluate(batches).nats_per_token;
    if (attention == Attention::Varlen) expected = loss;
    EXPECT_EQ(loss, expected);
  }
}

TEST(Generate, IsDeterministicAndStaysInTheVocabulary) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const Sampling sampling{
      .max_tokens = 60, .temperature = 0.9, .top_k = 5, .seed = 7, .stop_token = -1};
  const std::vector<std::int64_t> ids = generate(trainer, {1, 2, 3}, sampling);
  EXPECT_EQ(ids, generate(trainer, {1, 2, 3}, sampling));
  ASSERT_EQ(ids.size(), 60U); // longer than seq_len: the window slides
  for (const std::int64_t id : ids) EXPECT_TRUE(id >= 0 && id < config.vocab_size);
  EXPECT_THROW((void)generate(trainer, {}, sampling), Failure);
  EXPECT_THROW((void)generate(trainer, {config.vocab_size}, sampling), Failure);
}

TEST(Trainer, EvaluatesOnTheAverageAndWeighsByTokens) {
  TrainConfig config = small_config();
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 2);
  for (int i = 0; i < 3; ++i) (void)trainer.step(batches);
  const auto mean_loss = [&] {
    double sum = 0;
    for (const Batch& batch : batches)
      sum += at::cross_entropy_loss(trainer.logits(batch), batch.targets.view(-1)).item<double>();
    return sum / 2;
  };
  const EvalResult result = trainer.evaluate(batches);
  EXPECT_GT(std::abs(result.nats_per_token - mean_loss()), 1e-4);
  const auto averaged = trainer.use_ema();
  EXPECT_NEAR(result.nats_per_token, mean_loss(), 1e-6);
  EXPECT_EQ(result.tokens, 2 * 96);
  EXPECT_EQ(result.bytes, 2 * 96);
}

TEST(Generate, TopOneIsGreedy) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  EXPECT_EQ(generate(trainer, {9}, {.max_tokens = 8, .temperature = 1.5, .top_k = 1}),
            generate(trainer, {9}, {.max_tokens = 8, .temperature = 0}));
}

TEST(Generate, GreedyFollowsTheLikeliestTokenAndStops) {
  const TrainConfig config = small_config();
  Trainer trainer(config);
  const std::vector<std::int64_t> ids = generate(trainer, {4}, {.max_tokens = 3, .temperature = 0});
  Batch batch = make_batch(
      at::tensor({4}, at::kLong).unsqueeze(0), at::tensor({4}, at::kLong).unsqueeze(0), {});
  prepare(batch, config);
  EXPECT_EQ(ids[0], trainer.logits(batch)[0].argmax().item<std::int64_t>());
  EXPECT_TRUE(
      generate(trainer, {4}, {.max_tokens = 3, .temperature = 0, .stop_token = ids[0]}).empty());
}

TEST(PeakMemory, SeesWhatATensorTakes) {
  PeakMemory memory(Device::Cpu);
  const at::Tensor kept = at::zeros({1 << 20});
  { const at::Tensor earlier = at::zeros({1 << 22}); }
  memory.restart();
  EXPECT_NEAR(static_cast<double>(memory.start_bytes()), 4 << 20, 1 << 12);
  { const at::Tensor passing = at::zeros({1 << 19}); }
  EXPECT_NEAR(static_cast<double>(memory.peak_bytes() - memory.start_bytes()), 2 << 20, 1 << 12);
}

// Cloning the weights costs one more copy of them; a pointer swap costs nothing; the exchange its
// scratch.
TEST(PeakMemory, TellsTheSwapsApart) {
  double peak[3];
  std::int64_t bytes = 0;
  for (const EmaSwap method : {EmaSwap::CloneCopy, EmaSwap::PointerSwap, EmaSwap::Exchange}) {
    TrainConfig config;
    config.preset = "tiny";
    config.ema_swap = method;
    config = value_or_throw(resolve(config));
    bytes = 4 * model_size(config).parameters;
    PeakMemory memory(Device::Cpu);
    Trainer trainer(config);
    memory.restart();
    (void)trainer.use_ema();
    peak[static_cast<int>(method)] =
        static_cast<double>(memory.peak_bytes() - memory.start_bytes());
  }
  EXPECT_NEAR(peak[0], static_cast<double>(bytes), 0.01 * static_cast<double>(bytes));
  EXPECT_EQ(peak[1], 0);
  EXPECT_LE(peak[2], (1 << 18) + 4096);
}

TEST(GlobalState, HashSeesFlagsThreadsAndTheDefaultGenerator) {
  const std::uint64_t before = global_state_hash();
  EXPECT_EQ(before, global_state_hash());
  at::globalContext().setSDPUseMath(false);
  EXPECT_NE(before, global_state_hash());
  at::globalContext().setSDPUseMath(true);
  EXPECT_EQ(before, global_state_hash());
  (void)at::rand({1});
  EXPECT_NE(before, global_state_hash());
}

TEST(GlobalState, AStepAndAnEvaluationLeaveIt) {
  TrainConfig config = small_config();
  config.precision = Precision::Bf16;
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 1);
  const std::uint64_t before = global_state_hash();
  (void)trainer.step(batches);
  (void)trainer.evaluate(batches);
  (void)generate(trainer, {1}, {.max_tokens = 2});
  EXPECT_EQ(before, global_state_hash());
}

TEST(PlantedSpin, LengthensTheStepByItsShare) {
  TrainConfig config = small_config();
  config.planted_spin = 2.0; // a step of three times its length
  Trainer spun(config);
  config.planted_spin = 0;
  Trainer plain(config);
  const Batch batch = ragged_batch(config);
  const auto step_ns = [&](Trainer& trainer) {
    const auto start = std::chrono::steady_clock::now();
    (void)trainer.step({batch});
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
        .count();
  };
  // In turns: the machine is shared, and its speed changes from one moment to the next.
  std::vector<double> ratios;
  for (int i = 0; i < 51; ++i) {
    const double base = step_ns(plain);
    ratios.push_back(step_ns(spun) / base);
  }
  std::nth_element(ratios.begin(), ratios.begin() + 25, ratios.end());
  EXPECT_GT(ratios[25], 1.5); // on a loaded machine the plain step may be the longer one
  EXPECT_LT(ratios[25], 4.5);
}

} // namespace model_trainer_test
} // namespace assay
