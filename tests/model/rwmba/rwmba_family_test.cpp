// The family `rwmba` in the trainer: sizes, initial values, isolation, loop against chunks,
// gradients, learning.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/gates/gates.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"
#include "tests/model/row_levels.h"

namespace assay {
namespace rwmba_family_test {

using namespace testing_model;

TEST(RwmbaConfig, PresetsResolveAndCountTheirParameters) {
  for (const char* pattern : {"PPP", "R", "S", "PRS"}) {
    TrainConfig config;
    config.family = "rwmba";
    config.pattern = pattern;
    config = value_or_throw(resolve(config));
    std::int64_t parameters = 0;
    const Trainer trainer(config);
    for (const Parameter& p : trainer.parameters()) parameters += p.tensor.numel();
    EXPECT_EQ(parameters, model_size(config).parameters) << pattern;
  }
}

TEST(RwmbaConfig, ImpossibleShapesNameTheKey) {
  const auto message = [](const char* key, int value) {
    TrainConfig config;
    config.family = "rwmba";
    EXPECT_TRUE(set_key(config, key, nlohmann::json(value)));
    const Result<TrainConfig> result = resolve(config);
    EXPECT_FALSE(result) << key;
    return result ? std::string() : result.error().message;
  };
  EXPECT_NE(message("chunk_size", 48).find("'chunk_size' (48) must be a power of two"),
            std::string::npos);
  EXPECT_NE(message("conv_kernel", 1).find("'conv_kernel' (1) must be at least 2"),
            std::string::npos);
}

// The two forms of the scans are one function, also where documents end inside chunks.
TEST(Rwmba, LoopAndChunksAreOneFunction) {
  for (const char* pattern : {"PP", "RS"}) {
    TrainConfig config = small_rwmba();
    config.pattern = pattern;
    config = value_or_throw(resolve(config));
    TrainConfig loop = config;
    loop.scan_form = ScanForm::Loop;
    Trainer chunked(config), looped(loop);
    const Batch batch = ragged_batch(config);
    EXPECT_LE(relative_rms(chunked.logits(batch), looped.logits(batch)), 1e-5) << pattern;
    const auto a = chunked.gradients(batch), b = looped.gradients(batch);
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_LE(relative_rms(a[i], b[i]), 1e-3) << chunked.parameters()[i].name;
  }
}

// A document's logits hang on no other document, and on no later token.
TEST(Rwmba, DocumentsAndLaterTokensAreUnseen) {
  const TrainConfig config = small_rwmba();
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  const at::Tensor before = trainer.logits(batch, Attention::Varlen);
  Batch other = batch;
  other.tokens = batch.tokens.clone();
  other.tokens.view(-1).narrow(0, 20, 13).fill_(5); // the end of the third document
  const at::Tensor after = trainer.logits(other, Attention::Varlen);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 20), after.narrow(0, 0, 20)));
  EXPECT_TRUE(at::equal(before.narrow(0, 33, 63), after.narrow(0, 33, 63)));
  EXPECT_FALSE(at::equal(before.narrow(0, 20, 13), after.narrow(0, 20, 13)));
}

TEST(Rwmba, ParametersStartAsTheDocumentSays) {
  TrainConfig config;
  config.family = "rwmba";
  config = value_or_throw(resolve(config));
  const Trainer trainer(config);
  for (const Parameter& p : trainer.parameters()) {
    const std::string name = p.name.substr(p.name.rfind('.') + 1);
    if (name == "rwkv_gain" || name == "mamba_gain") {
      EXPECT_NEAR(p.tensor.mean().item<double>(), name == "rwkv_gain" ? 0.7 : 0.3, 1e-6);
    } else if (name == "decay") {
      EXPECT_NEAR(p.tensor[0].item<double>(), -6, 1e-6);
      EXPECT_NEAR(p.tensor[-1].item<double>(), -1, 1e-6);
    } else if (name == "out_proj") {
      EXPECT_NEAR(p.tensor.std().item<double>(), 0.02 / std::sqrt(6.0), 3e-4) << p.name;
    }
    EXPECT_EQ(p.decay, p.tensor.dim() >= 2 && name != "mix" && name != "bonus" && name != "conv")
        << p.name;
  }
}

TEST(Rwmba, OneBatchIsLearnedByHeart) {
  TrainConfig config = small_rwmba();
  config.lr = 1e-2;
  config.steps = 300;
  config.warmup_steps = 10;
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  double loss = 0;
  for (int i = 0; i < 300 && (i == 0 || loss >= 0.1); ++i) loss = trainer.step({batch}).loss();
  EXPECT_LT(loss, 0.1);
}

class RwmbaLevel : public testing::TestWithParam<RowLevel> {};

TEST_P(RwmbaLevel, PassesItsGatesAndShowsItsOwnSpan) {
  expect_level(GetParam(), config_for(*GetParam().row, "rwmba", small_rwmba()));
}

INSTANTIATE_TEST_SUITE_P(All,
                         RwmbaLevel,
                         testing::ValuesIn(row_levels("rwmba")),
                         [](const auto& at) {
                           return at.param.row->name + "_" + at.param.level->name;
                         });

} // namespace rwmba_family_test
} // namespace assay
