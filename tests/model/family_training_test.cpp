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

// Of a padded batch the documents alone have a loss: what stands in the padding changes no bit of
// loss, gradient or evaluation, and the loss is the mean over the documents' tokens.
TEST_P(FamilyTraining, PaddingIsNeitherTrainedNorCounted) {
  TrainConfig config;
  config.family = GetParam();
  config.packing = Packing::Padded;
  for (int i = 0; i < 30; ++i)
    (void)write(std::to_string(i) + ".txt",
                std::string(static_cast<std::size_t>(5 + 11 * i), static_cast<char>('a' + i % 3)));
  config.data = path();
  config = value_or_throw(resolve(config));
  DataStream stream(open_data(config), config, Split::Train);
  Batch batch = stream.next(), other = batch;
  ASSERT_GT(batch.padding, 0);
  other.tokens = at::where(batch.targets.lt(0), at::full({}, 7, at::kLong), batch.tokens);
  ASSERT_FALSE(at::equal(other.tokens, batch.tokens));
  prepare(batch, config), prepare(other, config);
  Trainer trainer(config);
  const EvalResult evaluated = trainer.evaluate({batch});
  EXPECT_EQ(evaluated.tokens, batch.token_count());
  EXPECT_EQ(evaluated.nats_per_token, trainer.evaluate({other}).nats_per_token);
  const std::vector<at::Tensor> gradients = trainer.averaged_gradients({batch});
  const std::vector<at::Tensor> of_other = trainer.averaged_gradients({other});
  for (std::size_t i = 0; i < gradients.size(); ++i)
    EXPECT_TRUE(at::equal(gradients[i], of_other[i])) << trainer.parameters()[i].name;

  double sum = 0; // of the documents, each alone in a batch
  for (std::size_t s = 0; s + 1 < batch.documents.cu_host.size(); ++s) {
    const std::int64_t begin = batch.documents.cu_host[s], end = batch.documents.cu_host[s + 1];
    const auto part = [&](const at::Tensor& all) {
      return all.flatten().slice(0, begin, end).view({1, -1});
    };
    if (part(batch.targets).lt(0).any().item<bool>()) continue;
    Batch alone = make_batch(part(batch.tokens), part(batch.targets), {});
    prepare(alone, config);
    sum += trainer.evaluate({alone}).nats_per_token * static_cast<double>(end - begin);
  }
  EXPECT_NEAR(sum / static_cast<double>(batch.token_count()), evaluated.nats_per_token, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(All,
                         FamilyTraining,
                         testing::ValuesIn(family_names()),
                         [](const auto& family) { return family.param; });

} // namespace family_training_test
} // namespace assay
