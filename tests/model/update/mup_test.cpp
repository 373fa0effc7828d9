// muP: what an update is, and activations of a training that do not grow with the width.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "model/config/shapes/mup.h"
#include "model/training/diagnosis.h"
#include "model/training/trainer.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace mup_test {

using testing_model::ragged_batch;
using testing_model::small_config;

TrainConfig of_width(std::int64_t width, std::int64_t mup_width, std::int64_t experts = 0) {
  TrainConfig config = experts > 0 ? testing_model::small_moe() : small_config();
  config.pattern = "GM";
  config.d_model = width;
  config.heads = width / 16;
  config.kv_rank = width / 4;
  config.ffn_dim = 2 * width;
  config.warmup_steps = 0;
  config.lr = 0.01;
  config.mup_width = mup_width;
  if (experts > 0) config.expert_dim = width;
  return value_or_throw(resolve(config));
}

// Neither embedding, norms, convolutions nor what a head has once.
bool reads_width(const Parameter& p) {
  for (const char* part :
       {"_proj", "kv_down", "kv_up", "ffn_in", "ffn_out", "experts_", "router", "head"})
    if (p.name.find(part) != std::string::npos) return true;
  return false;
}

// The table of mup.h, at m = 4: the first update of Adam has the size of its learning rate.
TEST(Mup, AnUpdateIsThatOfItsTable) {
  for (const UpdatePass pass : {UpdatePass::PerParameter, UpdatePass::Foreach}) {
    TrainConfig config = of_width(64, 16, 4);
    config.update_pass = pass;
    Trainer trainer(config);
    std::vector<at::Tensor> gradients, expected;
    const double lr = learning_rate(config, 0);
    for (const Parameter& p : trainer.parameters()) {
      gradients.push_back(at::randn_like(p.tensor.detach()).mul_(1e-4));
      const at::Tensor g = gradients.back().to(at::kDouble), w = p.tensor.detach().to(at::kDouble);
      const double share = reads_width(p) ? 0.25 : 1, decay = p.decay ? config.weight_decay : 0;
      expected.push_back(w * (1 - lr * decay) - lr * share * g / (g.abs() + config.adam_eps));
    }
    (void)trainer.update_with(gradients);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT((trainer.parameters()[i].tensor.detach() - expected[i]).abs().max().item<double>(),
                2e-6)
          << trainer.parameters()[i].name;
  }
}

TEST(Mup, OnlyHeadAndRoutersStartSmaller) {
  const Trainer with(of_width(64, 16, 4)), without(of_width(64, 0, 4));
  for (std::size_t i = 0; i < with.parameters().size(); ++i) {
    const at::Tensor a = with.parameters()[i].tensor, b = without.parameters()[i].tensor;
    const std::string& name = with.parameters()[i].name;
    const double factor = name == "head" || name.ends_with(".router") ? 0.5 : 1;
    EXPECT_TRUE(at::allclose(a, b * factor, 1e-6, 0)) << name;
  }
}

TEST(Mup, AtItsOwnWidthItIsNothing) {
  Trainer with(of_width(32, 32)), without(of_width(32, 0));
  const Batch batch = ragged_batch(with.config());
  for (int step = 0; step < 3; ++step)
    EXPECT_EQ(with.step({batch}).loss(), without.step({batch}).loss());
}

TEST(Mup, RefusesWhatItCannotDo) {
  TrainConfig config = of_width(32, 16);
  config.update_pass = UpdatePass::OnePass;
  EXPECT_NE(resolve(config).error().message.find("mup_width = 0"), std::string::npos);
  TrainConfig gpt;
  gpt.family = "gpt";
  gpt.mup_width = 64;
  EXPECT_NE(resolve(gpt).error().message.find("'mup_width' means nothing in family gpt"),
            std::string::npos);
}

// Root mean squares after some steps on one batch, by module, and of the logits.
std::map<std::string, double> sizes_after_steps(const TrainConfig& config) {
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  for (int step = 0; step < 6; ++step) (void)trainer.step({batch});
  std::map<std::string, double> sizes;
  for (const ModuleSpread& spread : diagnose(trainer, {batch}).spreads)
    sizes[spread.module] = std::sqrt(spread.variance);
  sizes["logits"] = trainer.logits(batch).square().mean().sqrt().item<double>();
  return sizes;
}

// Slopes of log size over log width, by least squares.
std::map<std::string, double> slopes(std::int64_t mup_width) {
  std::map<std::string, std::vector<double>> logs;
  const std::vector<std::int64_t> widths{64, 128, 256, 512};
  for (const std::int64_t width : widths)
    for (const auto& [name, size] : sizes_after_steps(of_width(width, mup_width)))
      logs[name].push_back(std::log(size));
  std::map<std::string, double> slopes;
  for (const auto& [name, y] : logs) {
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double x = static_cast<double>(i) - 1.5;
      sum += x * y[i];
      squares += x * x * std::log(2.0);
    }
    slopes[name] = sum / squares;
  }
  return slopes;
}

// The coordinate check of the paper (appendix D.1).
TEST(Mup, SizesDoNotGrowWithTheWidth) {
  double largest = 0;
  for (const auto& [name, slope] : slopes(64)) {
    EXPECT_LT(std::abs(slope), 0.1) << name;
    RecordProperty(name, std::to_string(slope));
  }
  for (const auto& [name, slope] : slopes(0)) {
    largest = std::max(largest, slope);
    RecordProperty(name + " without", std::to_string(slope));
  }
  EXPECT_GT(largest, 0.3);
}

} // namespace mup_test
} // namespace assay
