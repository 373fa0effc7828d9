// The preset `tiny` of every family learns from text, and resumes exactly from a checkpoint.
#include <gtest/gtest.h>

#include <cmath>

#include "model/data/loader.h"
#include "model/layout/segments.h"
#include "model/training/checkpoint.h"
#include "model/training/trainer.h"
#include "tests/model/data/data_fixture.h"

namespace assay {
namespace family_training_test {

// The text stream that `assay train` reads by default, and a checkpoint on disk between two halves.
class FamilyTraining : public DataTest, public testing::WithParamInterface<std::string> {};

TEST_P(FamilyTraining, TinyLearnsFromTextAndResumesBitExactly) {
  TrainConfig config;
  config.family = GetParam();
  std::string text;
  for (int i = 0; i < 200; ++i)
    for (const char* line : {"// A block of text about sparse attention.\n",
                             "int tokens_of(const Block& block);\n\n",
                             "for (int i = 0; i < count; ++i) sum += values[i];\n"})
      text += line + std::to_string(i % 7) + "\n";
  for (int i = 0; i < 40; ++i) (void)write(std::to_string(i) + ".txt", text.substr(97 * i, 300));
  config.data = path();
  config.steps = 30;
  config.warmup_steps = 3;
  config = value_or_throw(resolve(config));
  DataStream stream(open_data(config), config, Split::Train);
  std::vector<Batch> batches;
  for (int i = 0; i < 30; ++i) {
    batches.push_back(stream.next());
    prepare(batches.back(), config);
  }
  Trainer whole(config);
  double first = 0, last = 0;
  std::unique_ptr<Trainer> resumed;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i == 26) {
      CheckpointMeta meta;
      meta.config = config;
      meta.step = whole.step_index();
      meta.rng = whole.rng_state();
      const std::string saved = save_checkpoint(path("saved/"), meta, whole.state_tensors());
      const Checkpoint checkpoint = value_or_throw(load_checkpoint(saved));
      resumed = std::make_unique<Trainer>(checkpoint.meta.config);
      resumed->load_state_tensors(checkpoint.tensors);
      resumed->set_step_index(checkpoint.meta.step);
      resumed->set_rng_state(checkpoint.meta.rng);
    }
    last = whole.step({batches[i]}).loss();
    if (i == 0) first = last;
    if (resumed != nullptr) {
      EXPECT_EQ(resumed->step({batches[i]}).loss(), last);
    }
  }
  EXPECT_NEAR(first, std::log(256.0), 0.7);
  EXPECT_LT(last, 0.6 * first);
  for (std::size_t i = 0; i < whole.parameters().size(); ++i)
    EXPECT_TRUE(at::equal(whole.parameters()[i].tensor, resumed->parameters()[i].tensor))
        << whole.parameters()[i].name;
  EXPECT_EQ(whole.evaluate({batches[0]}).nats_per_token,
            resumed->evaluate({batches[0]}).nats_per_token);
}

INSTANTIATE_TEST_SUITE_P(All,
                         FamilyTraining,
                         testing::ValuesIn(family_names()),
                         [](const auto& family) { return family.param; });

} // namespace family_training_test
} // namespace assay
