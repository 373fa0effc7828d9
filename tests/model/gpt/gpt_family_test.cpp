// The family `gpt` in the trainer: configuration, initial values, tied head, isolation, gradients,
// precision, learning, generation, and the rows that it shares with other families.
#include <cmath>

#include "model/gates/gates.h"
#include "model/layout/static_batch.h"
#include "model/training/generate.h"
#include "tests/model/gpt/gpt_fixture.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace gpt_family_test {

using namespace testing_model;

TrainConfig gpt_preset(const char* preset) {
  TrainConfig config;
  config.family = "gpt";
  config.preset = preset;
  return value_or_throw(resolve(config));
}

std::size_t place_of(const Trainer& trainer, const std::string& name) {
  for (std::size_t i = 0; i < trainer.parameters().size(); ++i)
    if (trainer.parameters()[i].name == name) return i;
  ADD_FAILURE() << "no parameter " << name;
  return 0;
}

TEST(GptConfig, PresetsResolveAndCountTheirParameters) {
  for (const char* preset : {"tiny", "small"}) {
    const TrainConfig config = gpt_preset(preset);
    std::int64_t parameters = 0;
    const Trainer trainer(config);
    for (const Parameter& p : trainer.parameters()) parameters += p.tensor.numel();
    EXPECT_EQ(parameters, model_size(config).parameters) << preset;
  }
  EXPECT_LE(model_size(gpt_preset("tiny")).parameters, 1'000'000);
  // 124,439,808 parameters of GPT-2 with 50,257 tokens, and 47 rows of padding.
  EXPECT_EQ(model_size(gpt_preset("gpt2")).parameters, 124'439'808 + 47 * 768);
}

TEST(GptConfig, ImpossibleShapesNameTheKey) {
  const auto message = [](const char* key, std::int64_t value) {
    TrainConfig config;
    config.family = "gpt";
    config.positions = 64;
    config.seq_len = 64;
    EXPECT_TRUE(set_key(config, key, value));
    const Result<TrainConfig> result = resolve(config);
    EXPECT_FALSE(result) << key;
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(message("seq_len", 65).find("'positions' (64) must be at least 'seq_len' (65)"),
            std::string::npos);
  EXPECT_NE(message("rope_dim", 16).find("'rope_dim' means nothing in preset tiny of family gpt"),
            std::string::npos);
  EXPECT_NE(message("kv_rank", 8).find("belongs to family deltanet_mla"), std::string::npos);
  TrainConfig other;
  other.positions = 64;
  EXPECT_NE(resolve(other).error().message.find("belongs to family gpt"), std::string::npos);
}

TEST(GptConfig, TheTableOfPositionsHoldsTheLongestRow) {
  TrainConfig config;
  config.family = "gpt";
  EXPECT_EQ(value_or_throw(resolve(config)).positions, 128);
  config.seq_len = 64;
  EXPECT_EQ(value_or_throw(resolve(config)).positions, 128);
  config.seq_len = 1024;
  EXPECT_EQ(value_or_throw(resolve(config)).positions, 1024);
  config.positions = 2048;
  EXPECT_EQ(value_or_throw(resolve(config)).positions, 2048);
}

TEST(Gpt, InitialValuesAreGpt2s) {
  const TrainConfig config = gpt_preset("small"); // six layers
  const Trainer trainer(config);
  for (const Parameter& p : trainer.parameters()) {
    const double std = p.tensor.numel() > 1 ? p.tensor.std().item<double>() : 0;
    if (p.name.ends_with("bias")) {
      EXPECT_EQ(p.tensor.abs().max().item<double>(), 0) << p.name;
    } else if (p.name.ends_with("norm")) {
      EXPECT_TRUE(at::equal(p.tensor, at::ones_like(p.tensor))) << p.name;
    } else {
      const bool into_stream = p.name.ends_with("out_proj") || p.name.ends_with("ffn_out");
      EXPECT_NEAR(std, into_stream ? 0.02 / std::sqrt(12.0) : 0.02, 3e-4) << p.name;
    }
    EXPECT_EQ(p.decay, p.tensor.dim() == 2) << p.name;
  }
}

// One parameter, one optimizer state, and a gradient from both of its uses.
TEST(Gpt, TheHeadIsTheEmbedding) {
  const TrainConfig config = small_gpt();
  Trainer trainer(config);
  const std::size_t embedding = place_of(trainer, "embedding");
  for (const Parameter& p : trainer.parameters()) EXPECT_NE(p.name, "head");
  Batch batch = ragged_batch(config);
  batch.tokens.fill_(3);
  batch.targets.fill_(5);
  const at::Tensor gradient = trainer.gradients(batch)[embedding];
  // Rows that no token reads get the head's gradient alone; the row of token 3 also its own.
  EXPECT_GT(gradient[7].norm().item<double>(), 0);
  EXPECT_GT(gradient[3].norm().item<double>(), 2 * gradient[7].norm().item<double>());
  const at::Tensor before = trainer.logits(batch);
  {
    const at::NoGradGuard no_grad;
    trainer.parameters()[embedding].tensor[9].mul_(2);
  }
  const at::Tensor after = trainer.logits(batch); // token 9 is never read
  EXPECT_LE(relative_rms(after.select(1, 9), before.select(1, 9) * 2), 1e-6);
  EXPECT_TRUE(at::equal(after.narrow(1, 0, 9), before.narrow(1, 0, 9)));
}

// The loss in chunks hands out the head's gradient from its forward pass; autograd adds the
// lookup's, in every micro-batch, and the update sees one gradient.
TEST(Gpt, ATiedHeadGetsBothGradientsFromALossInChunks) {
  for (const Precision precision : {Precision::Fp32, Precision::Fp16})
    for (const std::int64_t accumulate : {1, 3}) {
      TrainConfig whole = small_gpt();
      whole.vocab_size = 5003; // 1 MiB: 52 of 96 tokens in fp32
      whole.accumulate = accumulate;
      whole.grad_scaler = GradScaler::Dynamic;
      TrainConfig chunked = whole;
      chunked.loss_chunk_mib = 1;
      chunked.precision = precision;
      Trainer a(whole), b(chunked);
      const std::vector<Batch> batches = ragged_batches(whole, static_cast<int>(accumulate));
      const auto x = a.averaged_gradients(batches), y = b.averaged_gradients(batches);
      const std::size_t embedding = place_of(a, "embedding");
      const double bound = precision == Precision::Fp32 ? 1e-5 : 2e-2;
      EXPECT_LE(relative_rms(y[embedding], x[embedding]), bound);
      const at::Tensor read = batches[0].tokens.view(-1); // rows with a part of the lookup
      EXPECT_LE(
          relative_rms(y[embedding].index_select(0, read), x[embedding].index_select(0, read)),
          bound);
      EXPECT_NEAR(b.evaluate(batches).nats_per_token, a.evaluate(batches).nats_per_token, 1e-3);
      for (int i = 0; i < 3; ++i)
        EXPECT_NEAR(b.step(batches).loss(), a.step(batches).loss(), 100 * bound * 1e-2);
      EXPECT_EQ(b.skipped_steps(), 0);
    }
}

TEST(Gpt, IsCausalAndIsolatesDocuments) {
  const TrainConfig config = small_gpt();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  for (int i = 0; i < 3; ++i) (void)trainer.step({batch});
  const LogitsFunction logits = [&](const Batch& b) { return trainer.logits(b); };
  for (const GateResult& gate : {isolation_gate(logits, batch, batch.documents, config.vocab_size),
                                 causality_gate(logits, batch, config.vocab_size),
                                 per_document_gate(logits, batch, config)})
    EXPECT_TRUE(gate.passed) << gate.name << " " << gate.value << " " << gate.detail;
}

// Attention and positions restart at documents or at rows.
TEST(Gpt, PackedPathsTakeRowsAsSegments) {
  const TrainConfig config = small_gpt();
  const Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const at::Tensor packed = trainer.logits(batch, Attention::Packed);
  EXPECT_LE(relative_rms(packed, trainer.logits(batch, Attention::MaskDense)), 1e-5);
  EXPECT_GT(relative_rms(packed, trainer.logits(batch, Attention::Varlen)), 1e-3);
  const LogitsFunction logits = [&](const Batch& b) {
    return trainer.logits(b, Attention::Packed);
  };
  EXPECT_TRUE(isolation_gate(logits, batch, batch.rows, config.vocab_size).passed);
  EXPECT_FALSE(isolation_gate(logits, batch, batch.documents, config.vocab_size).passed);
}

TEST(Gpt, PositionsRestartWithEachDocument) {
  const TrainConfig config = small_gpt();
  const Batch batch = ragged_batch(config);
  EXPECT_EQ(batch.documents.positions.select(0, 12).item<std::int64_t>(), 11);
  EXPECT_EQ(batch.documents.positions.select(0, 13).item<std::int64_t>(), 0);
  EXPECT_EQ(batch.rows.positions.select(0, 47).item<std::int64_t>(), 47);
  EXPECT_EQ(batch.rows.positions.select(0, 48).item<std::int64_t>(), 0);
  TrainConfig longer = config;
  longer.seq_len = 49; // the table has 48 rows
  EXPECT_THROW((void)ragged_batch(longer), Failure);
}

TEST(Gpt, EveryParameterGetsAGradient) {
  const TrainConfig config = small_gpt();
  Trainer trainer(config);
  const std::vector<at::Tensor> gradients = trainer.gradients(ragged_batch(config));
  for (std::size_t i = 0; i < gradients.size(); ++i)
    EXPECT_GT(gradients[i].norm().item<double>(), 0) << trainer.parameters()[i].name;
}

TEST(Gpt, LowPrecisionIsNearFp32) {
  const TrainConfig exact = small_gpt();
  for (const Precision precision : {Precision::Bf16, Precision::Fp16, Precision::Fp8})
    for (const Weights16 weights : {Weights16::Cast, Weights16::Kept}) {
      TrainConfig low = exact;
      low.precision = precision;
      low.weights16 = weights;
      Trainer a(exact), b(low);
      const Batch batch = ragged_batch(exact);
      const double off = relative_rms(b.logits(batch), a.logits(batch));
      EXPECT_LE(off, precision == Precision::Fp8 ? 0.2 : 2e-2);
      EXPECT_GT(off, 1e-6);
      const auto x = b.gradients(batch), y = a.gradients(batch);
      for (std::size_t i = 0; i < y.size(); ++i)
        EXPECT_LE(relative_rms(x[i], y[i]), precision == Precision::Fp8 ? 0.3 : 3e-2)
            << a.parameters()[i].name;
      EXPECT_TRUE(b.step({batch}).finite());
    }
}

TEST(Gpt, GeneratesBeyondItsPositions) {
  const TrainConfig config = small_gpt();
  Trainer trainer(config);
  const Sampling sampling{.max_tokens = 55, .temperature = 0.9, .top_k = 5, .seed = 7};
  const std::vector<std::int64_t> ids = generate(trainer, {1, 2, 3}, sampling);
  EXPECT_EQ(ids, generate(trainer, {1, 2, 3}, sampling));
  EXPECT_EQ(ids.size(), 55U);
}

TEST(Gpt, LearnsAPatternThatNeedsPositionsAndAttention) {
  TrainConfig config = small_gpt();
  config.lr = 1e-2;
  Trainer trainer(config);
  Batch batch = ragged_batch(config);
  const double first = trainer.step({batch}).loss();
  double last = first;
  for (int i = 0; i < 60; ++i) last = trainer.step({batch}).loss();
  EXPECT_NEAR(first, std::log(61.0), 0.1);
  EXPECT_LT(last, 0.3 * first);
}

// What a captured step reads of its batch.
TEST(Gpt, StaticBatchesTakePositions) {
  const TrainConfig config = small_gpt();
  const Batch first = ragged_batch(config), other = random_batch(config, 9, {20, 70});
  StaticBatch fixed(first, Attention::Varlen, 64);
  const void* address = fixed.batch().documents.positions.const_data_ptr();
  for (const Batch& batch : {first, other}) {
    fixed.load(batch);
    EXPECT_TRUE(at::equal(fixed.batch().documents.positions, batch.documents.positions));
  }
  EXPECT_EQ(fixed.batch().documents.positions.const_data_ptr(), address);
  const StaticBatch rows(first, Attention::Packed, 0);
  EXPECT_TRUE(at::equal(rows.batch().rows.positions, first.rows.positions));
}

class GptLevel : public testing::TestWithParam<RowLevel> {};

TEST_P(GptLevel, PassesItsGatesAndShowsItsOwnSpan) {
  expect_level(GetParam(), gpt_for(*GetParam().row));
}

INSTANTIATE_TEST_SUITE_P(All, GptLevel, testing::ValuesIn(gpt_row_levels()), [](const auto& at) {
  return at.param.row->name + "_" + at.param.level->name;
});

} // namespace gpt_family_test
} // namespace assay
