// Diagnoses against planted truths: scaled and zeroed branches, states of known entropy.
#include "model/training/diagnosis.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/layout/carry.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace diagnosis_test {

using namespace testing_model;

TEST(Diagnosis, ComponentsOfParameters) {
  EXPECT_EQ(component_of("layers.3.rwkv.out_proj"), "rwkv");
  EXPECT_EQ(component_of("layers.12.ffn_in_bias"), "feed_forward");
  EXPECT_EQ(component_of("layers.0.mixer_norm"), "norms");
  EXPECT_EQ(component_of("layers.0.rwkv_gain"), "mixer");
  EXPECT_EQ(component_of("final_norm"), "");
}

TEST(Diagnosis, EntropyOfKnownStates) {
  at::Tensor state = at::ones({1, 2, 8, 3});
  EXPECT_NEAR(state_entropy(state), std::log(8.0), 1e-12);
  state.zero_();
  EXPECT_EQ(state_entropy(state), 0);
  state[0][0][5].fill_(2), state[0][1][1].fill_(-7); // one channel a head
  EXPECT_EQ(state_entropy(state), 0);
  state[0][0][6].fill_(-2); // two equal ones in one of two heads
  EXPECT_NEAR(state_entropy(state), std::log(2.0) / 2, 1e-12);
}

at::Tensor parameter(const Trainer& trainer, const std::string& name) {
  for (const Parameter& p : trainer.parameters())
    if (p.name == name) return p.tensor;
  ADD_FAILURE() << name;
  return {};
}

double norm_of(const Diagnosis& diagnosis, const std::string& layer, const std::string& component) {
  for (const ComponentGradient& row : diagnosis.gradients)
    if (row.layer == layer && row.component == component) return row.norm;
  ADD_FAILURE() << layer << " " << component;
  return 0;
}

double ratio(const Diagnosis& diagnosis) {
  return norm_of(diagnosis, "layers.1", "rwkv") / norm_of(diagnosis, "layers.1", "mamba");
}

// The norms are those of the trainer's own gradients.
TEST(Diagnosis, NormsAreThoseOfTheGradients) {
  const TrainConfig config = small_rwmba();
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 1);
  const std::vector<at::Tensor> gradients = trainer.gradients(batches[0]);
  double square = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (trainer.parameters()[i].name.starts_with("layers.1.mamba."))
      square += gradients[i].to(at::kDouble).square().sum().item<double>();
  EXPECT_NEAR(norm_of(diagnose(trainer, batches), "layers.1", "mamba"),
              std::sqrt(square),
              1e-9 * std::sqrt(square));
}

// The norm behind a branch takes out its size, so that gradients of its parameters are those of the
// branch's output times its gain: a tenth of it, a tenth of the ratio, but for what the smaller
// output changes in the layers above.
TEST(Diagnosis, ATenthOfAGainIsATenthOfTheRatio) {
  const TrainConfig config = small_rwmba();
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 2);
  const double before = ratio(diagnose(trainer, batches));
  parameter(trainer, "layers.1.rwkv_gain").set_data(at::full({config.d_model}, 0.07));
  EXPECT_NEAR(ratio(diagnose(trainer, batches)) / before, 0.1, 0.03);
}

TEST(Diagnosis, AZeroedBranchIsCollapsedAndNoOther) {
  const TrainConfig config = small_rwmba();
  Trainer trainer(config);
  const std::vector<Batch> batches = ragged_batches(config, 2);
  for (const ModuleSpread& row : diagnose(trainer, batches).spreads) {
    EXPECT_GT(row.variance, 0) << row.module;
    EXPECT_FALSE(row.collapsed) << row.module;
  }
  parameter(trainer, "layers.0.mamba_gain").set_data(at::zeros({config.d_model}));
  int rows = 0;
  for (const ModuleSpread& row : diagnose(trainer, batches).spreads) {
    EXPECT_EQ(row.collapsed, row.module == "layers.0.mamba") << row.module;
    if (row.collapsed) {
      EXPECT_EQ(row.variance, 0);
    }
    ++rows;
  }
  EXPECT_EQ(rows, 2 * 4); // rwkv, mamba, mixer, feed_forward
}

// Of attention there are none.
TEST(Diagnosis, StatesOfEachLayerLieBetweenOneChannelAndAll) {
  const TrainConfig config = small_rwmba();
  Trainer trainer(config);
  const Diagnosis diagnosis = diagnose(trainer, ragged_batches(config, 2));
  ASSERT_EQ(diagnosis.states.size(), 4U);
  for (const StateEntropy& row : diagnosis.states) {
    const bool rwkv = row.module.ends_with("rwkv");
    EXPECT_NEAR(row.most, std::log(rwkv ? config.head_dim : config.state_dim), 1e-12);
    EXPECT_GT(row.nats, 0) << row.module;
    EXPECT_LT(row.nats, row.most) << row.module;
  }
  const TrainConfig attends = testing_model::small_gpt();
  Trainer without(attends);
  EXPECT_TRUE(diagnose(without, ragged_batches(attends, 1)).states.empty());
}

TEST(Diagnosis, StatesOfTheDeltaRuleAreThoseOfItsRecurrence) {
  const TrainConfig config = small_config(); // G, M, G
  Trainer trainer(config);
  const Diagnosis diagnosis = diagnose(trainer, ragged_batches(config, 2));
  ASSERT_EQ(diagnosis.states.size(), 2U);
  EXPECT_EQ(diagnosis.states[0].module, "layers.0.delta");
  EXPECT_EQ(diagnosis.states[1].module, "layers.2.delta");
  for (const StateEntropy& row : diagnosis.states) {
    EXPECT_NEAR(row.most, std::log(config.head_dim), 1e-12);
    EXPECT_GE(row.nats, 0) << row.module;
    EXPECT_LT(row.nats, row.most) << row.module;
  }
}

} // namespace diagnosis_test
} // namespace assay
