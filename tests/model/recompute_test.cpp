// Layers that keep their input alone: the same step, less memory, and as many layers run again as
// the key says.
#include <gtest/gtest.h>

#include "model/memory/peak_memory.h"
#include "model/training/trainer.h"
#include "tests/model/event_counts.h"
#include "tests/model/model_fixture.h"

namespace assay {
namespace recompute_test {

using namespace testing_model;

std::vector<TrainConfig> all_families() {
  std::vector<TrainConfig> all{
      small_config(), small_nsa(), small_gpt(), small_rwmba(), small_hydra(), small_moe()};
  for (TrainConfig& config : all) config.pattern += config.pattern; // four layers and more
  all.push_back(all[0]);
  all.back().precision = Precision::Bf16;
  all.back().weights16 = Weights16::Kept;
  all.back().norms = Norms::Fused;
  all.push_back(all[4]);
  all.back().precision = Precision::Bf16;
  all.back().routing = Routing::Compacted;
  all.push_back(all.back());
  all.back().routing = Routing::Static;
  return all;
}

TEST(Recompute, GradientsAndStepsAreBitEqual) {
  for (const TrainConfig& config : all_families()) {
    const std::vector<Batch> batches = ragged_batches(config, 2);
    Trainer kept(config);
    const std::vector<at::Tensor> expected = kept.gradients(batches[0]);
    (void)kept.step({batches[0]});
    const double loss = kept.step({batches[1]}).loss();
    for (const std::int64_t every : {1, 2, 4}) {
      TrainConfig other = config;
      other.recompute_every = every;
      Trainer again(value_or_throw(resolve(other)));
      const std::vector<at::Tensor> actual = again.gradients(batches[0]);
      for (std::size_t i = 0; i < expected.size(); ++i)
        EXPECT_TRUE(at::equal(actual[i], expected[i]))
            << config.family << " " << every << " " << kept.parameters()[i].name;
      (void)again.step({batches[0]});
      EXPECT_EQ(again.step({batches[1]}).loss(), loss) << config.family << " " << every;
    }
  }
}

// Every second of five layers and the first: three run again.
TEST(Recompute, RunsTheNamedLayersAgain) {
  TrainConfig config = small_gpt();
  config.pattern = "AAAAA";
  config.recompute_every = 2;
  config = value_or_throw(resolve(config));
  Trainer trainer(config);
  EventCounts counts;
  {
    const SpanSinkGuard counting(counts);
    (void)trainer.step({ragged_batch(config)});
    (void)trainer.evaluate({ragged_batch(config)});
  }
  EXPECT_EQ(counts.seen["recompute/layers"], 3);
  EXPECT_EQ(counts.seen["recompute/every_2"], 1);
}

std::int64_t step_bytes(const TrainConfig& config) {
  PeakMemory memory(Device::Cpu);
  Trainer trainer(config);
  const Batch batch = ragged_batch(config);
  (void)trainer.step({batch});
  memory.restart();
  (void)trainer.step({batch});
  return memory.peak_bytes() - memory.start_bytes();
}

TEST(Recompute, TheMoreLayersTheLessMemory) {
  TrainConfig config = small_gpt();
  config.pattern = "AAAAAAAAAAAA";
  config.seq_len = 48, config.batch_rows = 16;
  config = value_or_throw(resolve(config));
  std::int64_t more = step_bytes(config);
  const std::int64_t none = more;
  for (const std::int64_t every : {4, 2, 1}) {
    config.recompute_every = every;
    const std::int64_t bytes = step_bytes(config);
    EXPECT_LT(bytes, more) << every;
    more = bytes;
  }
  EXPECT_LT(more, none / 2);
}

} // namespace recompute_test
} // namespace assay
